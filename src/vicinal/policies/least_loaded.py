"""`least_loaded`: in each pool, the endpoint with the fewest predicted tokens outstanding; blind to distance and cache.

The honest baseline (MISSION A1, B1): prefill and decode are chosen one after the other, decode again when the prefill
is done.
"""

from dataclasses import dataclass

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import least_loaded_whole, pick


@dataclass(slots=True)
class LeastLoaded:
    name: str = "least_loaded"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        usable = table.usable
        i = pick(table.serving, table.prefill.outstanding_tokens, chance=chance)
        j = pick(usable[i], table.decode.outstanding_tokens, chance=chance)
        return Choice(
            i,
            j,
            f"fewest outstanding tokens: {table.prefill.outstanding_tokens[i]:.0f} to prefill, "
            f"{table.decode.outstanding_tokens[j]:.0f} to decode",
        )

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        return least_loaded_whole(table, chance)
