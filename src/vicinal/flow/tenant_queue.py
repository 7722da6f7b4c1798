"""One tenant's requests in one band and lane, in their order."""

import heapq

from vicinal.contracts.flow import Waiting
from vicinal.domain.ids import RequestId

_Entry = tuple[int, float, int, Waiting]


class TenantQueue:
    """Two heaps: those that can still be in time, and behind them those that cannot. Serving a late one first makes the
    next one late, too; so late ones give way. One that is removed stays in its heap until it comes to the top."""

    def __init__(self) -> None:
        self._in_time: list[_Entry] = []
        self._late: list[_Entry] = []
        self._members: dict[RequestId, Waiting] = {}
        self._entered = 0

    def __len__(self) -> int:
        return len(self._members)

    def add(self, waiting: Waiting, key: float) -> None:
        """The client's own priority goes before the operator's order; where both are equal, whoever came first."""
        heapq.heappush(self._in_time, (waiting.request.priority, key, self._entered, waiting))
        self._members[waiting.request.id] = waiting
        self._entered += 1

    def remove(self, request_id: RequestId) -> None:
        del self._members[request_id]
        if len(self._in_time) + len(self._late) > 2 * len(self._members) + 16:
            self._in_time = [entry for entry in self._in_time if self._stands(entry[3])]
            self._late = [entry for entry in self._late if self._stands(entry[3])]
            heapq.heapify(self._in_time)
            heapq.heapify(self._late)

    def head(self, begins_s: float) -> Waiting:
        """Whose turn it is among them, when a prefill would begin at `begins_s`; there must be one."""
        while self._in_time:
            waiting = self._in_time[0][3]
            if not self._stands(waiting):
                heapq.heappop(self._in_time)
            elif begins_s + waiting.prefill_s > waiting.due_s:
                heapq.heappush(self._late, heapq.heappop(self._in_time))
            else:
                return waiting
        while not self._stands(waiting := self._late[0][3]):
            heapq.heappop(self._late)
        return waiting

    def newest(self) -> Waiting:
        """Who came last; there must be one."""
        return self._members[next(reversed(self._members))]

    def _stands(self, waiting: Waiting) -> bool:
        return self._members.get(waiting.request.id) is waiting
