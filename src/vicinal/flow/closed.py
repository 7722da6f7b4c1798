"""Where somebody was found to have to go on waiting, and so everybody behind, for as long as nothing changes."""

from collections.abc import Iterable

from vicinal.contracts.flow import Waiting
from vicinal.domain.lane import Lane


class Closed:
    """Whole lanes, and lanes of single pools: who has places of its own is not kept waiting by those who have not."""

    def __init__(self) -> None:
        self._lanes: set[Lane] = set()
        self._pools: set[tuple[str, Lane]] = set()

    def close_lane(self, lane: Lane) -> None:
        self._lanes.add(lane)

    def close_pool(self, pool: str, lanes: Iterable[Lane]) -> None:
        self._pools.update((pool, lane) for lane in lanes)

    def lane(self, lane: Lane) -> bool:
        """Nobody in this lane may go."""
        return lane in self._lanes

    def keeps(self, waiting: Waiting) -> bool:
        return waiting.lane in self._lanes or (waiting.pool, waiting.lane) in self._pools

    @property
    def nothing(self) -> bool:
        return not self._lanes and not self._pools
