"""`selfish`: the pair that is best for the request itself, whatever it does to the others. What prices are for (C6).

`by=ttft` takes the smallest predicted TTFT, `by=cost` the smallest cost of its own: `cost` without the prices. With
`local=yes` local plans are rows like any other; a request that does not mind the batch that it stops then mostly
prefills where it decodes, so that is not the default. All pairs are looked at: a large fleet costs milliseconds.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import pick

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Selfish:
    name: str = "selfish"
    by: Literal["ttft", "cost"] = "ttft"
    local: Literal["no", "yes"] = "no"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        usable = np.concatenate((table.usable.ravel(), table.usable_local & (self.local == "yes")))
        pairs = self._seconds(table, table.grid.ttft_s)
        seconds = np.concatenate((pairs.ravel(), self._of_locals(table)))
        place = pick(usable, seconds, chance=chance)
        i, j = divmod(place, table.shape[1])
        return Choice(i, j, self._reason(float(seconds[place])))

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        seconds = self._of_locals(table)
        j = pick(table.usable_local, seconds, chance=chance)
        return Choice(table.local_row, j, self._reason(float(seconds[j])))

    def _of_locals(self, table: Table) -> Floats:
        return self._seconds(table, table.local_ttft_s)

    def _seconds(self, table: Table, ttft_s: Floats) -> Floats:
        """(…, D)"""
        return ttft_s if self.by == "ttft" else table.ttft_cost_s(ttft_s) + table.decode.tpot_cost_s

    def _reason(self, seconds: float) -> str:
        what = "predicted TTFT" if self.by == "ttft" else "cost of its own"
        return f"smallest {what}: {seconds:.3f} s"
