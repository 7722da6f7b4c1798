"""One tenant's requests in one band and lane, in their order."""

import heapq

from vicinal.contracts.flow import Waiting
from vicinal.domain.ids import RequestId


class TenantQueue:
    """A heap. One that is removed from its middle stays in it until it comes to the top."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, float, int, Waiting]] = []
        self._members: dict[RequestId, Waiting] = {}
        self._entered = 0

    def __len__(self) -> int:
        return len(self._members)

    def add(self, waiting: Waiting, key: float) -> None:
        """The client's own priority goes before the operator's order; where both are equal, whoever came first."""
        heapq.heappush(self._heap, (waiting.request.priority, key, self._entered, waiting))
        self._members[waiting.request.id] = waiting
        self._entered += 1

    def remove(self, request_id: RequestId) -> None:
        del self._members[request_id]
        if len(self._heap) > 2 * len(self._members) + 16:
            self._heap = [entry for entry in self._heap if self._stands(entry[3])]
            heapq.heapify(self._heap)

    def head(self) -> Waiting:
        """Whose turn it is among them; there must be one."""
        while not self._stands(waiting := self._heap[0][3]):
            heapq.heappop(self._heap)
        return waiting

    def newest(self) -> Waiting:
        """Who came last; there must be one."""
        return self._members[next(reversed(self._members))]

    def _stands(self, waiting: Waiting) -> bool:
        return self._members.get(waiting.request.id) is waiting
