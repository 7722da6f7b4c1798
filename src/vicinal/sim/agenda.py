"""What happens next in virtual time: entries ordered by (time, rank, order of entry), so that a run can be repeated.

What happens at one moment happens in the order of `Rank`: the world moves on before the scheduler hears of it, and a
request that arrives at the end of another finds the room that it left.
"""

import heapq
from collections.abc import Callable
from enum import IntEnum
from math import inf

Happening = Callable[[float], None]
"""What to do when its time has come; it is given the time."""


class Rank(IntEnum):
    """Who goes first among entries of one time."""

    FAULT = 0
    NETWORK = 1
    ENGINE = 2
    NEWS = 3
    REPORT = 4
    ARRIVAL = 5
    ALARM = 6


class Agenda:
    """Entries in the order in which they fall due. An entry in the past is due now."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, Happening]] = []
        self._entries = 0
        self.now_s = 0.0

    def add(self, at_s: float, rank: Rank, happening: Happening) -> None:
        self._entries += 1
        heapq.heappush(self._heap, (at_s, rank, self._entries, happening))

    def step(self) -> bool:
        """Let the next entry happen. False when there is none."""
        if not self._heap:
            return False
        at_s, _, _, happening = heapq.heappop(self._heap)
        self.now_s = max(self.now_s, at_s)
        happening(self.now_s)
        return True


class Wake:
    """One source's next entry, which may be moved: entries that were overtaken come up and do nothing."""

    __slots__ = ("_agenda", "_at_s", "_happening", "_rank")

    def __init__(self, agenda: Agenda, rank: Rank, happening: Happening) -> None:
        self._agenda = agenda
        self._rank = rank
        self._happening = happening
        self._at_s = inf

    def at(self, at_s: float | None) -> None:
        """Wake at this time instead of any earlier arrangement; None for not at all."""
        wanted = inf if at_s is None else at_s
        if wanted == self._at_s:
            return
        self._at_s = wanted
        if wanted < inf:
            self._agenda.add(wanted, self._rank, self._ring)

    def _ring(self, now: float) -> None:
        if self._at_s <= now:
            self._at_s = inf
            self._happening(now)
