"""`none`: tenants do not matter, the oldest head goes first. What the others are compared with."""

from collections.abc import Collection, Sequence

from vicinal.contracts.flow import Waiting
from vicinal.domain.ids import TenantId
from vicinal.domain.request import Request


class NoFairness:
    def joined(self, tenant: TenantId, others: Collection[TenantId]) -> None:
        """Nothing is counted."""

    def left(self, tenant: TenantId) -> None:
        """Nothing is counted."""

    def pick(self, heads: Sequence[Waiting]) -> Waiting:
        return min(heads, key=lambda head: head.since_s)

    def charge(self, request: Request, cached_tokens: int) -> None:
        """Nothing is counted."""

    def correct(self, request: Request, output_tokens: int) -> None:
        """Nothing is counted."""

    def service(self, tenant: TenantId) -> float | None:
        return None
