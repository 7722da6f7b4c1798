"""The answer to a request whose tenant has had enough."""

from dataclasses import dataclass

from vicinal.domain.ids import TenantId
from vicinal.flow.quotas.rules import Quota


@dataclass(frozen=True, slots=True)
class Exceeded:
    """`figure` is what is used now and `limit` the most that may be: of a rate, what is in use of a burst of `burst_s`.
    `retry_s` is when the tenant may go again, if it sends nothing meanwhile; None when only an end of one of its
    requests can tell."""

    tenant: TenantId
    quota: Quota
    figure: float
    limit: float
    retry_s: float | None = None
    burst_s: float | None = None

    @property
    def words(self) -> str:
        within = "" if self.burst_s is None else f" within {self.burst_s:g} s"
        return f"quota {self.quota} of tenant {self.tenant} is used up: {self.figure:,.6g} of {self.limit:,.6g}{within}"
