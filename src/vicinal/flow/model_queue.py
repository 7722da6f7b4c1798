"""What waits for one model: a queue per band, and whose turn it is among them."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from vicinal.contracts.flow import Fairness, Ordering, Waiting
from vicinal.domain.band import Band
from vicinal.flow.aging import AgedTurns
from vicinal.flow.band_queue import BandQueue
from vicinal.flow.closed import Closed


class Turn(Struct, frozen=True, eq=False):
    """Who may go next. `aged`: before others of a higher band, because of its age."""

    waiting: Waiting
    aged: bool


class ModelQueue:
    """`fairness` makes the rule of one band: what a tenant had in one band does not count in another."""

    def __init__(self, fairness: Callable[[], Fairness], ordering: Ordering, aging: AgedTurns) -> None:
        self.bands = {band: BandQueue(fairness(), ordering) for band in Band}
        self.aging = aging

    def __len__(self) -> int:
        return sum(len(queue) for queue in self.bands.values())

    def __iter__(self) -> Iterator[Waiting]:
        for queue in self.bands.values():
            yield from queue

    def next(self, closed: Closed, begins_s: float, now: float) -> Turn | None:
        """The first of the highest band in which somebody may go, unless a lower one is due by its age. A prefill that
        is sent off now would begin at `begins_s`."""
        first: Turn | None = None
        for queue in self.bands.values():
            if not len(queue) or (first is not None and not self._due(queue, now)):
                continue
            head = queue.next(closed, begins_s)
            if head is None:
                continue
            if first is not None:
                return Turn(head, aged=True)
            first = Turn(head, aged=False)
        return first

    def _due(self, queue: BandQueue, now: float) -> bool:
        oldest = queue.oldest()
        return oldest is not None and self.aging.due(oldest, now)
