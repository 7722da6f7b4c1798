"""`decode_first` (MISSION A3): decode holds state for the whole answer, so its load decides; then the nearest prefill.

Decode: the least loaded. Prefill: the tightest level of the network to it; among equals, the least loaded.
"""

from dataclasses import dataclass

import numpy as np

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import least_loaded_whole, pick


@dataclass(slots=True)
class DecodeFirst:
    name: str = "decode_first"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        usable = table.usable
        j = pick(np.any(usable, axis=0), table.decode.outstanding_tokens, chance=chance)
        level = table.network.paths.level[:, j].astype(np.float64)
        i = pick(usable[:, j], level, table.prefill.outstanding_tokens, chance=chance)
        return Choice(i, j, "least loaded decode, then the nearest prefill", decode_bound=True)

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        return least_loaded_whole(table, chance)
