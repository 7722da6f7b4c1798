"""What waits in one band of one model: a queue per lane and tenant."""

import math
from collections import Counter
from collections.abc import Callable, Iterator

from vicinal.contracts.flow import Fairness, Ordering, Waiting
from vicinal.domain.ids import RequestId, TenantId
from vicinal.domain.lane import Lane
from vicinal.flow.closed import Closed
from vicinal.flow.tenant_queue import TenantQueue


class BandQueue:
    def __init__(self, fairness: Fairness, ordering: Ordering) -> None:
        self.fairness = fairness
        self._ordering = ordering
        self._lanes: dict[Lane, dict[TenantId, TenantQueue]] = {lane: {} for lane in Lane}
        self._by_arrival: dict[RequestId, Waiting] = {}
        self._of_tenant: Counter[TenantId] = Counter()
        self._prefill_s: dict[TenantId, float] = {}

    def __len__(self) -> int:
        return len(self._by_arrival)

    def __iter__(self) -> Iterator[Waiting]:
        """In the order in which they came."""
        return iter(self._by_arrival.values())

    def add(self, waiting: Waiting) -> None:
        tenant = waiting.request.tenant
        if not self._of_tenant[tenant]:
            self.fairness.joined(tenant, [other for other in self._of_tenant if other != tenant])
        self._of_tenant[tenant] += 1
        self._prefill_s[tenant] = self._prefill_s.get(tenant, 0.0) + waiting.prefill_s
        self._by_arrival[waiting.request.id] = waiting
        self._lanes[waiting.lane].setdefault(tenant, TenantQueue()).add(waiting, self._ordering.key(waiting))

    def remove(self, waiting: Waiting) -> None:
        tenant = waiting.request.tenant
        del self._by_arrival[waiting.request.id]
        queues = self._lanes[waiting.lane]
        queues[tenant].remove(waiting.request.id)
        if not len(queues[tenant]):
            del queues[tenant]
        self._of_tenant[tenant] -= 1
        self._prefill_s[tenant] -= waiting.prefill_s
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant], self._prefill_s[tenant]
            self.fairness.left(tenant)

    def oldest(self) -> Waiting | None:
        return next(iter(self._by_arrival.values()), None)

    def next(self, closed: Closed, begins_s: float) -> Waiting | None:
        """Whose turn it is where nothing is closed, for a prefill that would begin at `begins_s`: in each lane the
        tenant that fairness picks; of both lanes the older one, because how many long ones run is bounded elsewhere."""
        heads = [head for lane in Lane if (head := self._next_in(lane, closed, begins_s)) is not None]
        return min(heads, key=lambda head: head.since_s, default=None)

    def heads(self, lane: Lane) -> list[Waiting]:
        """Of each tenant, whose turn it is among its own, as long as that one can be in time. To look changes nothing:
        nobody is found late by it."""
        return [queue.head(-math.inf) for queue in self._lanes[lane].values()]

    def _next_in(self, lane: Lane, closed: Closed, begins_s: float) -> Waiting | None:
        if closed.lane(lane):
            return None
        heads = [queue.head(begins_s) for queue in self._lanes[lane].values()]
        if not closed.nothing:
            heads = [head for head in heads if not closed.keeps(head)]
        return self.fairness.pick(heads) if heads else None

    def largest(self, waiting_of: Callable[[TenantId, int], float]) -> TenantId:
        """The tenant that has most waiting here, by a measure of the tenant and its number; there must be one."""
        return max(self._of_tenant, key=lambda tenant: (waiting_of(tenant, self._of_tenant[tenant]), tenant))

    def newest_of(self, tenant: TenantId) -> Waiting:
        """The one that came last of a tenant of which something waits here."""
        queues = [lane[tenant] for lane in self._lanes.values() if tenant in lane]
        return max((queue.newest() for queue in queues), key=lambda waiting: waiting.since_s)

    @property
    def waiting(self) -> Counter[TenantId]:
        """How many wait, by tenant."""
        return self._of_tenant

    @property
    def prefill_s(self) -> dict[TenantId, float]:
        """Predicted prefill seconds of what waits, by tenant."""
        return self._prefill_s

    def counts(self) -> Counter[tuple[Lane, TenantId]]:
        return Counter({(lane, t): len(queue) for lane, queues in self._lanes.items() for t, queue in queues.items()})
