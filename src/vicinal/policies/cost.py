"""`cost`: the row with the smallest total, prices included. The default."""

from dataclasses import dataclass

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request


@dataclass(slots=True)
class Cost:
    name: str = "cost"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        best = ranking.drawn(chance)[0]
        return Choice(best.i, best.j, f"smallest total of the table: {best.total_s:.3f} s")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        return self.choose(request, table, ranking, chance)
