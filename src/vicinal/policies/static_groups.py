"""`static_groups` (MISSION A5): one group of prefill and decode endpoints per leaf; a request stays in its group.

Groups take turns; inside one, the least loaded prefill and decode. Simple, and KV never leaves the rack; its weakness
is that a busy group cannot borrow from an idle one. Endpoints of Unknown leaf form a group together.
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
class StaticGroups:
    name: str = "static_groups"
    _turn: int = 0
    _whole_turn: int = 0

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        usable, fleet = table.usable, table.view.fleet
        of_prefill, of_decode = fleet.leaf[table.prefill.slots], fleet.leaf[table.decode.slots]
        inside = usable & (of_prefill[:, None] == of_decode)
        whole = np.any(inside, axis=1)
        if not np.count_nonzero(whole):
            # No group can serve by itself (all its prefill or decode endpoints are out): leaving the group is what is
            # left, and the reason says so.
            i = pick(np.any(usable, axis=1), table.prefill.outstanding_tokens, chance=chance)
            j = pick(usable[i], table.decode.outstanding_tokens, chance=chance)
            return Choice(i, j, "no group is whole: outside of groups")
        groups = np.unique(of_prefill[whole])
        group = groups[self._turn % len(groups)]
        if len(groups) > 1:  # choosing decode anew, when the prefill is done, is no turn
            self._turn += 1
        i = pick(whole & (of_prefill == group), table.prefill.outstanding_tokens, chance=chance)
        j = pick(inside[i], table.decode.outstanding_tokens, chance=chance)
        return Choice(i, j, f"turn of group {fleet.leaves[group] or 'unknown'}")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        usable, fleet = table.usable_local, table.view.fleet
        of_decode = fleet.leaf[table.decode.slots]
        groups = np.unique(of_decode[usable])
        group = groups[self._whole_turn % len(groups)]
        self._whole_turn += 1
        j = pick(usable & (of_decode == group), table.local_outstanding_tokens, chance=chance)
        return Choice(table.local_row, j, f"turn of group {fleet.leaves[group] or 'unknown'}")
