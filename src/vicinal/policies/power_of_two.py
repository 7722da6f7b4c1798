"""`power_of_two`: in each pool, the less loaded of two candidates that are drawn (MISSION B1).

Nearly as good as asking all, and it does not send everybody to the same endpoint when what is known of the loads is
old. With `bias` the draw prefers who has the prompt's prefix and who has reported lately: a candidate's chance of
being drawn is in proportion to

    (1 + bias · share of the prompt that it has cached) / (1 + bias, if its last report is older than `fresh_s`)

Model replicas and healthy endpoints need no preference: nobody else is in the table.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.loads import Measure, decode_load, prefill_load, whole_load
from vicinal.policies.pick import draw, pick

Floats = NDArray[np.float64]


@dataclass(slots=True)
class PowerOfTwo:
    """`candidates` is 2, but for comparison with other numbers."""

    name: str = "power_of_two"
    by: Measure = "tokens"
    bias: Annotated[float, Meta(ge=0)] = 0.0
    fresh_s: Annotated[float, Meta(gt=0)] = 2.0
    candidates: Annotated[int, Meta(ge=1)] = 2

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        prefill, decode = table.prefill, table.decode
        among = self._drawn(request, table, table.serving, prefill.slots, prefill.cached_tokens, chance)
        i = pick(among, prefill_load(table, self.by), chance=chance)
        among = self._drawn(request, table, table.usable_from(i), decode.slots, decode.held_tokens, chance)
        j = pick(among, decode_load(table, self.by), chance=chance)
        return Choice(i, j, f"least {self.by} of {self.candidates} drawn from each pool")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        decode = table.decode
        among = self._drawn(request, table, table.usable_local, decode.slots, decode.local_cached_tokens, chance)
        j = pick(among, whole_load(table, self.by), chance=chance)
        return Choice(table.local_row, j, f"least {self.by} of {self.candidates} drawn")

    def _drawn(
        self,
        request: Request,
        table: Table,
        allowed: NDArray[np.bool_],
        slots: NDArray[np.intp],
        cached_tokens: Floats,
        chance: Stream,
    ) -> NDArray[np.bool_]:
        weights = allowed.astype(np.float64)
        if self.bias:
            weights *= 1.0 + self.bias * cached_tokens / max(request.prompt_tokens, 1)
            weights /= np.where(table.view.report_age_s[slots] > self.fresh_s, 1.0 + self.bias, 1.0)
        return draw(weights, self.candidates, chance)
