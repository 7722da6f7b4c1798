"""`round_robin`: each pool in turn, whatever its state (MISSION A1, B1).

The two turns must not run in lockstep: pools of equal size in the same order would pair the same racks for ever, and
look topology-aware by accident. So the decode pool skips one place each time the prefill pool has gone round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Pair
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request


@dataclass(slots=True)
class RoundRobin:
    name: str = "round_robin"
    _turn: int = 0

    def choose(self, request: Request, table: Table, ranked: Sequence[Pair], chance: Stream) -> Choice:
        rows, columns = table.shape
        usable = table.usable
        i = _next(table.serving, self._turn % rows)
        j = _next(usable[i], (self._turn + self._turn // rows) % columns)
        self._turn += 1
        return Choice(i, j, f"turn {self._turn}", decode_bound=True)


def _next(allowed: NDArray[np.bool_], start: int) -> int:
    """The first allowed position from `start` on, going round."""
    positions = np.flatnonzero(allowed)
    return int(positions[np.searchsorted(positions, start) % len(positions)])
