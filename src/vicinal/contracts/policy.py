"""A policy takes the decision table and returns the row it takes, with its reason.

A policy sees costs in seconds but need not use them; whatever it uses, the record prices its row like every other, so
that policies can be compared decision by decision. State of a policy's own (a counter, a tree) lives in the policy.
"""

from typing import Protocol

from msgspec import Struct

from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request


class Choice(Struct, frozen=True):
    """Row (i, j) of the table; `i == table.local_row` is the local plan.

    `decode_bound` keeps the decode endpoint when the prefill is done; otherwise the policy chooses it anew then, from
    a table whose only prefill endpoint is the one that holds the KV.
    """

    i: int
    j: int
    reason: str
    decode_bound: bool = False


class Policy(Protocol):
    """It raises nothing and changes only its own state. `ranking` finds the cheapest rows of the table when it is
    asked, local plans included.

    `choose` is called with at least one pair that can serve. `choose_whole` is called when none can and some local plan
    can: on a fleet whose engines hand nothing off, or for a request that one engine must serve whole. It takes a local
    plan.
    """

    @property
    def name(self) -> str: ...

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice: ...

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice: ...
