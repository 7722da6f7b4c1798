"""A level per thing (an endpoint, a model), with hysteresis and dwell, so that a noisy signal does not make it flap.

A level rises at once. It falls by one step when for `dwell_s` nothing has called for it and nothing that is known has
kept it up. While nothing is known of a thing its level stays: unknown is not normal.
"""

import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int8]


class Levels:
    """Per thing: `rank` of its level, and `since_s` when it changed last, -inf for never."""

    def __init__(self, dwell_s: float) -> None:
        self._dwell_s = dwell_s
        self.rank: Ranks = np.zeros(0, dtype=np.int8)
        self.since_s = np.zeros(0)
        self._wanted_s = np.zeros(0)

    def __len__(self) -> int:
        return len(self.rank)

    def resize(self, things: int) -> None:
        """There are never fewer than before."""
        more = things - len(self)
        self.rank = np.append(self.rank, np.zeros(more, dtype=np.int8))
        self.since_s = np.append(self.since_s, np.full(more, -np.inf))
        self._wanted_s = np.append(self._wanted_s, np.full(more, -np.inf))

    def forget(self, thing: int) -> None:
        self.rank[thing] = 0
        self.since_s[thing] = self._wanted_s[thing] = -np.inf

    def update(
        self, calls: Ranks, keeps: Ranks, unknown: NDArray[np.bool_], now: float
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """`calls` and `keeps` are the highest over all signals that are known; `unknown` is where none is. Returns what
        rose, and what fell."""
        rises = ~unknown & (calls > self.rank)
        self.rank[rises] = calls[rises]
        self._wanted_s[unknown | (keeps >= self.rank)] = now
        falls = now - self._wanted_s >= self._dwell_s
        falls &= self.rank > 0
        self.rank[falls] -= 1
        self._wanted_s[falls] = now
        changed = rises | falls
        self.since_s[changed] = now
        return rises.nonzero()[0], falls.nonzero()[0]
