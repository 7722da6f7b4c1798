"""Virtual counters: how much service each tenant of a band has had, over its weight.

As in the virtual token counter (Sheng et al., OSDI'24): a tenant that begins to wait is lifted to the least counter of
those that wait, so nobody saves up turns by being idle; where nobody waits, to that of the one that left last.
"""

from collections.abc import Callable, Collection

from vicinal.domain.ids import TenantId

IDLE_MAX = 4096
"""Counters of tenants of which nothing waits. A larger number is cut: the smallest would be lifted first anyway."""


class Counters:
    """`weight` of a tenant is positive; twice the weight is twice the service."""

    def __init__(self, weight: Callable[[TenantId], float]) -> None:
        self._weight = weight
        self._had: dict[TenantId, float] = {}
        self._waiting: set[TenantId] = set()
        self._last_left = 0.0

    def of(self, tenant: TenantId) -> float:
        return self._had.get(tenant, 0.0)

    def add(self, tenant: TenantId, tokens: float) -> None:
        self._had[tenant] = self.of(tenant) + tokens / self._weight(tenant)
        if len(self._had) > len(self._waiting) + 2 * IDLE_MAX:
            self._cut()

    def joined(self, tenant: TenantId, others: Collection[TenantId]) -> None:
        least = min((self.of(other) for other in others if other != tenant), default=self._last_left)
        self._had[tenant] = max(self.of(tenant), least)
        self._waiting.add(tenant)

    def left(self, tenant: TenantId) -> None:
        self._waiting.discard(tenant)
        self._last_left = self.of(tenant)

    def _cut(self) -> None:
        idle = sorted((had, tenant) for tenant, had in self._had.items() if tenant not in self._waiting)
        for _, tenant in idle[: len(idle) - IDLE_MAX]:
            del self._had[tenant]
