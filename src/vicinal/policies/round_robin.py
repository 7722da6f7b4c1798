"""`round_robin`: each pool in turn, whatever its state (MISSION A1, B1).

The two turns must not run in lockstep: pools of equal size in the same order would pair the same racks for ever, and
look topology-aware by accident. They come round together after as many turns as the least common multiple of the pool
sizes, so then the decode pool skips one place: in as many turns as there are pairs, each pair has its turn once.
"""

from dataclasses import dataclass
from math import lcm

import numpy as np

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request


@dataclass(slots=True)
class RoundRobin:
    name: str = "round_robin"
    _turn: int = 0
    _whole_turn: int = 0

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        rows = np.flatnonzero(table.serving)
        i = int(rows[self._turn % len(rows)])
        columns = np.flatnonzero(table.usable[i])
        rounds = self._turn // lcm(len(rows), len(columns))
        j = int(columns[(self._turn + rounds) % len(columns)])
        self._turn += 1
        return Choice(i, j, f"turn {self._turn}", decode_bound=True)

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        columns = table.usable_local.nonzero()[0]
        j = int(columns[self._whole_turn % len(columns)])
        self._whole_turn += 1
        return Choice(table.local_row, j, f"turn {self._whole_turn}")
