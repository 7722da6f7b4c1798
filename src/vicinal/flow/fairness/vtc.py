"""`vtc`: the virtual token counter of Sheng et al. (OSDI'24), weighted. The tenant with the least service goes first.

A prompt token counts `prompt_weight`, an output token `output_weight` (the authors' 1 and 2). The prompt counts when
the request is sent off, as theirs does when it is admitted; so does the predicted answer, put right when it is known.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from vicinal.contracts.flow import Waiting
from vicinal.domain.ids import TenantId
from vicinal.domain.request import Request
from vicinal.flow.fairness.counters import Counters


@dataclass(slots=True)
class VirtualTokens:
    weight: Callable[[TenantId], float]
    prompt_weight: float = 1.0
    output_weight: float = 2.0
    _counters: Counters = field(init=False)

    def __post_init__(self) -> None:
        self._counters = Counters(self.weight)

    def joined(self, tenant: TenantId, others: Collection[TenantId]) -> None:
        self._counters.joined(tenant, others)

    def left(self, tenant: TenantId) -> None:
        self._counters.left(tenant)

    def pick(self, heads: Sequence[Waiting]) -> Waiting:
        return min(heads, key=lambda head: (self._counters.of(head.request.tenant), head.since_s))

    def charge(self, request: Request, cached_tokens: int) -> None:
        tokens = self.prompt_weight * request.prompt_tokens + self.output_weight * request.expected_output_tokens
        self._counters.add(request.tenant, tokens)

    def correct(self, request: Request, output_tokens: int) -> None:
        self._counters.add(request.tenant, self.output_weight * (output_tokens - request.expected_output_tokens))

    def service(self, tenant: TenantId) -> float | None:
        return self._counters.of(tenant)
