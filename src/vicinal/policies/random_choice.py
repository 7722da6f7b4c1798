"""`random`: any endpoint of each pool that may serve, each as likely as the other.

What every other policy has to beat; Mooncake's figure 5 begins with it. Decode is bound at arrival: drawing again would
say nothing new.
"""

from dataclasses import dataclass

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import pick


@dataclass(slots=True)
class Random:
    name: str = "random"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        i = pick(table.serving, chance=chance)
        return Choice(i, pick(table.usable_from(i), chance=chance), "drawn", decode_bound=True)

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        return Choice(table.local_row, pick(table.usable_local, chance=chance), "drawn")
