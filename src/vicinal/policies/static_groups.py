"""`static_groups` (MISSION A5): one group of prefill and decode endpoints per leaf; a request stays in its group.

Groups take turns; inside one, the least loaded prefill and decode. Simple, and KV never leaves the rack; its weakness
is that a busy group cannot borrow from an idle one. Endpoints of Unknown leaf form a group together.

With `borrow_s` it can: a group is saturated while prefill would begin there more than so many seconds later than in the
group where it would begin first, and then that group serves the request, all of it, so that its KV still stays in one
rack.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import pick


@dataclass(slots=True)
class StaticGroups:
    """`borrow_s` infinite is no borrowing."""

    name: str = "static_groups"
    borrow_s: Annotated[float, Meta(ge=0)] = math.inf
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
        turn = groups[self._turn % len(groups)]
        group = self._lender(turn, groups, of_prefill, np.where(whole, table.prefill.wait_s, np.inf))
        if len(groups) > 1:  # choosing decode anew, when the prefill is done, is no turn
            self._turn += 1
        i = pick(whole & (of_prefill == group), table.prefill.outstanding_tokens, chance=chance)
        j = pick(inside[i], table.decode.outstanding_tokens, chance=chance)
        return Choice(i, j, _reason(fleet, turn, group))

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        usable, fleet = table.usable_local, table.view.fleet
        of_decode = fleet.leaf[table.decode.slots]
        groups = np.unique(of_decode[usable])
        turn = groups[self._whole_turn % len(groups)]
        group = self._lender(turn, groups, of_decode, np.where(usable, table.decode.local_wait_s, np.inf))
        self._whole_turn += 1
        j = pick(usable & (of_decode == group), table.local_outstanding_tokens, chance=chance)
        return Choice(table.local_row, j, _reason(fleet, turn, group))

    def _lender(
        self, turn: np.intp, groups: NDArray[np.intp], of: NDArray[np.intp], waits_s: NDArray[np.float64]
    ) -> np.intp:
        """The group whose turn it is, or, when it is saturated, the one with the shortest wait. `of` and `waits_s` are
        per endpoint; a group's wait is that of its endpoint where prefill would begin first."""
        if self.borrow_s == math.inf:
            return turn
        shortest_s = np.array([waits_s[of == group].min() for group in groups])
        least = int(shortest_s.argmin())
        own_s = shortest_s[int(np.flatnonzero(groups == turn)[0])]
        return groups[least] if own_s > shortest_s[least] + self.borrow_s else turn


def _reason(fleet: Fleet, turn: np.intp, group: np.intp) -> str:
    names = [fleet.leaves[each] or "unknown" for each in (turn, group)]
    return f"turn of group {names[0]}" if turn == group else f"group {names[0]} is saturated: borrowed from {names[1]}"
