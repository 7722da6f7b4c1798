"""`static_groups` (MISSION A5): one group of prefill and decode endpoints per leaf; a request stays in its group.

Groups take turns; inside one, the least loaded prefill and decode. Simple, and KV never leaves the rack; its weakness
is that a busy group cannot borrow from an idle one. Endpoints of Unknown leaf form a group together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Pair
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import pick


@dataclass(slots=True)
class StaticGroups:
    name: str = "static_groups"
    _turn: int = 0

    def choose(self, request: Request, table: Table, ranked: Sequence[Pair], chance: Stream) -> Choice:
        usable = table.usable
        of_prefill, of_decode = _groups(table, table.prefill.slots), _groups(table, table.decode.slots)
        inside = usable & (of_prefill[:, None] == of_decode)
        groups = sorted(set(of_prefill[np.any(inside, axis=1)].tolist()))
        if not groups:
            # No group can serve by itself (all its prefill or decode endpoints are out): leaving the group is what is
            # left, and the reason says so.
            inside, groups, note = usable, [""], "no group is whole: outside of groups"
            of_prefill = np.full(len(of_prefill), "")
        else:
            note = ""
        group = groups[self._turn % len(groups)]
        if len(groups) > 1:  # choosing decode anew, when the prefill is done, is no turn
            self._turn += 1
        i = pick(np.any(inside, axis=1) & (of_prefill == group), table.prefill.outstanding_tokens, chance=chance)
        j = pick(inside[i], table.decode.outstanding_tokens, chance=chance)
        return Choice(i, j, note or f"turn of group {group or 'unknown'}")


def _groups(table: Table, slots: NDArray[np.intp]) -> NDArray[np.str_]:
    endpoints = table.view.fleet.endpoints
    return np.array([endpoints[slot].placement.leaf for slot in slots.tolist()])
