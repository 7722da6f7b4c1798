"""`locality`: a tenant whose prefix is there may go first, as far as a bounded deficit lets it.

After DLPM (Cao et al., arXiv 2501.14312): what is reused costs nobody anything, so only computed tokens count, and
among tenants that are not too far ahead the one goes first of whose prompt most is there. "Not too far" is
`deficit_tokens` above the least counter, over the weight; 0 is plain fairness in computed tokens. The authors refill
deficits in rounds and look at all requests of a client; here the counters are those of `vtc`, and each tenant shows its
first request.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from vicinal.contracts.flow import Waiting
from vicinal.domain.ids import TenantId
from vicinal.domain.request import Request
from vicinal.flow.fairness.counters import Counters


@dataclass(slots=True)
class LocalityAware:
    """`reusable_tokens` says how much of a prompt is there now, on the endpoint that has most of it."""

    weight: Callable[[TenantId], float]
    reusable_tokens: Callable[[Request], int]
    deficit_tokens: float = 32768.0
    output_weight: float = 2.0
    _counters: Counters = field(init=False)

    def __post_init__(self) -> None:
        self._counters = Counters(self.weight)

    def joined(self, tenant: TenantId, others: Collection[TenantId]) -> None:
        self._counters.joined(tenant, others)

    def left(self, tenant: TenantId) -> None:
        self._counters.left(tenant)

    def pick(self, heads: Sequence[Waiting]) -> Waiting:
        had = {head.request.tenant: self._counters.of(head.request.tenant) for head in heads}
        least = min(had.values())
        near = [head for head in heads if self._ahead(head, had, least) <= self.deficit_tokens]
        if len(near) == 1:
            return near[0]
        return max(near, key=lambda head: (self.reusable_tokens(head.request), -had[head.request.tenant]))

    def _ahead(self, head: Waiting, had: dict[TenantId, float], least: float) -> float:
        tenant = head.request.tenant
        return (had[tenant] - least) * self.weight(tenant)

    def charge(self, request: Request, cached_tokens: int) -> None:
        computed = request.prompt_tokens - cached_tokens
        self._counters.add(request.tenant, computed + self.output_weight * request.expected_output_tokens)

    def correct(self, request: Request, output_tokens: int) -> None:
        self._counters.add(request.tenant, self.output_weight * (output_tokens - request.expected_output_tokens))

    def service(self, tenant: TenantId) -> float | None:
        return self._counters.of(tenant)
