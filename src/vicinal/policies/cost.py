"""`cost`: the row with the smallest total, prices included. The default."""

from collections.abc import Sequence
from dataclasses import dataclass

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Pair
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request


@dataclass(slots=True)
class Cost:
    name: str = "cost"

    def choose(self, request: Request, table: Table, ranked: Sequence[Pair], chance: Stream) -> Choice:
        return Choice(ranked[0].i, ranked[0].j, f"smallest total of the table: {ranked[0].total_s:.3f} s")
