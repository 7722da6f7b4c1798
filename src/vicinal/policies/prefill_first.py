"""`prefill_first` (MISSION A4): a cached prefix makes prefill stateful, so it decides; then the nearest decode.

Prefill: the longest cached prefix; among equals, the least loaded. Decode: the tightest level of the network to it;
among equals, the least loaded.
"""

from dataclasses import dataclass

import numpy as np

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import pick


@dataclass(slots=True)
class PrefillFirst:
    name: str = "prefill_first"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        usable = table.usable
        cached = table.prefill.cached_tokens
        i = pick(table.serving, -cached, table.prefill.outstanding_tokens, chance=chance)
        level = table.network.paths.level[i].astype(np.float64)
        j = pick(usable[i], level, table.decode.outstanding_tokens, chance=chance)
        return Choice(i, j, f"longest cached prefix ({cached[i]:.0f} tokens), then the nearest decode")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        cached = table.decode.local_cached_tokens
        j = pick(table.usable_local, -cached, table.local_outstanding_tokens, chance=chance)
        return Choice(table.local_row, j, f"longest cached prefix ({cached[j]:.0f} tokens)")
