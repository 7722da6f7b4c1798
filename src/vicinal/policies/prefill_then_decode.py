"""`prefill_then_decode`: one rule for prefill, another for decode, one after the other: the halves of other policies.

It serves to take apart what a joint choice is worth: the same seconds as `cost` has, without choosing the pair
together and without prices. `prefill=ttft` is the smallest predicted end of the prefill, `lmetric` the fewest new
tokens times requests there (the new one included), `load` the fewest outstanding tokens. `decode=load` is the fewest
outstanding tokens, `transfer` the fewest seconds of transfer, room and step, with the tokens that the decode endpoint
holds already not moved. Decode is chosen again when the prefill is done.
"""

from dataclasses import dataclass
from typing import Literal

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.halves import (
    Floats,
    decode_transfer_s,
    prefill_ttft_s,
    prefill_work,
    whole_ttft_s,
    whole_work,
)
from vicinal.policies.pick import pick


@dataclass(slots=True)
class PrefillThenDecode:
    name: str = "prefill_then_decode"
    prefill: Literal["ttft", "lmetric", "load"] = "ttft"
    decode: Literal["load", "transfer"] = "transfer"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        i = pick(table.serving, self._of_prefill(request, table), chance=chance)
        by = table.decode.outstanding_tokens if self.decode == "load" else decode_transfer_s(table, i)
        j = pick(table.usable_from(i), by, chance=chance)
        return Choice(i, j, f"prefill by {self.prefill}, then decode by {self.decode}")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        j = pick(table.usable_local, self._of_whole(request, table), chance=chance)
        return Choice(table.local_row, j, f"by {self.prefill}")

    def _of_prefill(self, request: Request, table: Table) -> Floats:
        match self.prefill:
            case "ttft":
                return prefill_ttft_s(table)
            case "lmetric":
                new_tokens, requests = prefill_work(request, table)
                return new_tokens * (requests + 1)
            case "load":
                return table.prefill.outstanding_tokens

    def _of_whole(self, request: Request, table: Table) -> Floats:
        match self.prefill:
            case "ttft":
                return whole_ttft_s(table)
            case "lmetric":
                new_tokens, requests = whole_work(request, table)
                return new_tokens * (requests + 1)
            case "load":
                return table.local_outstanding_tokens
