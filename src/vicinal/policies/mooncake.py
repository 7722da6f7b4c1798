"""`mooncake`: Algorithm 1 of Mooncake (arXiv 2407.00079, FAST'25) as far as stock engines can carry it out.

Prefill: the smallest T_queue + T_prefill(length, cached prefix), where T_queue is the predicted compute of what waits
there. Decode, chosen together with it: the smallest predicted time between tokens.

Left out: fetching a longer prefix from another instance (no engine does that on demand), with which the algorithm is
the authors' "global cache-aware"; what is here is their "local cache-aware" scheduling. And refusing a request whose
predicted TTFT or TBT misses its objective.
"""

from dataclasses import dataclass

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.halves import prefill_ttft_s, whole_ttft_s
from vicinal.policies.pick import pick


@dataclass(slots=True)
class Mooncake:
    name: str = "mooncake"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        ttft_s, tpot_s = prefill_ttft_s(table), table.decode.tpot_s
        i = pick(table.serving, ttft_s, chance=chance)
        j = pick(table.usable_from(i), tpot_s, chance=chance)
        reason = f"prefill done after {ttft_s[i]:.3f} s, then {tpot_s[j] * 1e3:.1f} ms between tokens"
        return Choice(i, j, reason, decode_bound=True)

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        ttft_s = whole_ttft_s(table)
        j = pick(table.usable_local, ttft_s, chance=chance)
        return Choice(table.local_row, j, f"prefill done after {ttft_s[j]:.3f} s")
