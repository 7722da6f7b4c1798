"""`least_loaded`: in each pool, the endpoint with the least load; blind to distance and cache.

The honest baseline (MISSION A1, B1): prefill and decode are chosen one after the other, decode again when the prefill
is done. `by` says what load is (policies/loads.py).
"""

from dataclasses import dataclass

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.loads import Measure, decode_load, prefill_load, whole_load
from vicinal.policies.pick import pick


@dataclass(slots=True)
class LeastLoaded:
    name: str = "least_loaded"
    by: Measure = "tokens"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        of_prefill, of_decode = prefill_load(table, self.by), decode_load(table, self.by)
        i = pick(table.serving, of_prefill, chance=chance)
        j = pick(table.usable_from(i), of_decode, chance=chance)
        return Choice(i, j, f"least {self.by}: {of_prefill[i]:.4g} to prefill, {of_decode[j]:.4g} to decode")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        loads = whole_load(table, self.by)
        j = pick(table.usable_local, loads, chance=chance)
        return Choice(table.local_row, j, f"least {self.by}: {loads[j]:.4g}")
