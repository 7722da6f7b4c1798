"""The virtual token counter of Sheng et al. (OSDI'24), weighted: the tenant with the least service goes first.

A prompt token counts 1, an output token `output_weight` (the authors' 1 and 2). The prompt counts when the request is
sent off, as theirs does when it is admitted; so does the predicted answer, put right when it is known. That is `vtc`.

`locality` is the same with two things changed, after DLPM (Cao et al., arXiv 2501.14312). What is reused costs nobody
anything, so cached tokens do not count; and of tenants that are no more than `deficit_tokens` above the least counter,
over the weight, the one goes first of whose prompt most is there. The authors refill deficits in rounds and look at all
requests of a client; here each tenant shows its first request.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from vicinal.contracts.flow import Waiting
from vicinal.domain.ids import TenantId
from vicinal.domain.request import Request
from vicinal.flow.fairness.counters import Counters

NEAR_MAX = 16
"""Tenants whose prompts are looked up for one turn, those with the least service: each look-up is a match."""


@dataclass(slots=True)
class VirtualTokens:
    """`reusable_tokens` says how much of a prompt is there now, on the endpoint that has most of it."""

    weight: Callable[[TenantId], float]
    cached_weight: float = 1.0
    output_weight: float = 2.0
    deficit_tokens: float = 0.0
    reusable_tokens: Callable[[Request], int] = lambda _: 0
    _counters: Counters = field(init=False)

    def __post_init__(self) -> None:
        self._counters = Counters(self.weight)

    def joined(self, tenant: TenantId, others: Collection[TenantId]) -> None:
        self._counters.joined(tenant, others)

    def left(self, tenant: TenantId) -> None:
        self._counters.left(tenant)

    def pick(self, heads: Sequence[Waiting]) -> Waiting:
        if not self.deficit_tokens:
            return min(heads, key=self._order)
        ordered = sorted(heads, key=self._order)[:NEAR_MAX]
        least = self._had(ordered[0])
        near = [head for head in ordered if self._ahead(head, least) <= self.deficit_tokens]
        return max(near, key=lambda head: self.reusable_tokens(head.request)) if len(near) > 1 else near[0]

    def charge(self, request: Request, cached_tokens: int) -> None:
        prompt = request.prompt_tokens - cached_tokens + self.cached_weight * cached_tokens
        self._counters.add(request.tenant, prompt + self.output_weight * request.expected_output_tokens)

    def correct(self, request: Request, output_tokens: int) -> None:
        self._counters.add(request.tenant, self.output_weight * (output_tokens - request.expected_output_tokens))

    def service(self, tenant: TenantId) -> float | None:
        return self._counters.of(tenant)

    def _had(self, head: Waiting) -> float:
        return self._counters.of(head.request.tenant)

    def _order(self, head: Waiting) -> tuple[float, float]:
        return self._had(head), head.since_s

    def _ahead(self, head: Waiting, least: float) -> float:
        return (self._had(head) - least) * self.weight(head.request.tenant)
