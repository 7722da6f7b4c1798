"""`cost`: the row with the smallest total, prices included. The default.

With `local=no` a decode endpoint prefills by itself only where no pair can serve: for comparison with policies that
choose pairs only.
"""

from dataclasses import dataclass
from typing import Literal

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking, cheapest
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request


@dataclass(slots=True)
class Cost:
    name: str = "cost"
    local: Literal["yes", "no"] = "yes"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        if self.local == "yes":
            return self.choose_whole(request, table, ranking, chance)
        best = cheapest(table, 1, chance, table.serving)[0]
        return Choice(best.i, best.j, f"smallest total of the pairs: {best.total_s:.3f} s")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        best = ranking.drawn(chance)[0]
        return Choice(best.i, best.j, f"smallest total of the table: {best.total_s:.3f} s")
