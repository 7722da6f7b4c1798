"""`weighted_score` (MISSION A6): w1 · utilisation + w2 · queue depth + w3 · hops, on raw values; the smallest is taken.

Of a pair, utilisation and queue depth are the sums of both ends', hops the switches between them (topology/graph.py).
Utilisation is what the engine says of its GPU and, where it says nothing, how full its batch is; never idle because it
is unknown (policies/loads.py). Queue depth is our count of what waits there.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.loads import decode_load, prefill_load, whole_load
from vicinal.policies.pick import pick
from vicinal.topology.graph import Level

Weight = Annotated[float, Meta(ge=0)]
HOPS = np.array([level.hops for level in Level], dtype=np.float64)


@dataclass(slots=True)
class WeightedScore:
    """The three weights. Nothing but their owner's feeling says how many queued requests a hop is worth."""

    name: str = "weighted_score"
    utilisation: Weight = 1.0
    queue: Weight = 1.0
    hops: Weight = 1.0

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        of_prefill = self.utilisation * prefill_load(table, "utilisation") + self.queue * prefill_load(table, "queue")
        of_decode = self.utilisation * decode_load(table, "utilisation") + self.queue * decode_load(table, "queue")
        score = of_prefill[:, None] + of_decode + self.hops * HOPS.take(table.network.paths.level)
        i, j = divmod(pick(table.usable.ravel(), score.ravel(), chance=chance), table.shape[1])
        return Choice(i, j, f"smallest score: {score[i, j]:.3f}")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        score = self.utilisation * whole_load(table, "utilisation") + self.queue * whole_load(table, "queue")
        j = pick(table.usable_local, score, chance=chance)
        return Choice(table.local_row, j, f"smallest score: {score[j]:.3f}")
