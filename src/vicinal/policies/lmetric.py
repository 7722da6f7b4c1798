"""`lmetric`: the smallest (new prefill tokens if routed here) × (current batch size) of LMetric (arXiv 2603.15202,
OSDI'26).

An empty batch makes the product nought whatever is cached, so among equal products the fewest new tokens win, then
chance. The rule is for engines that serve whole requests. Where phases are apart it chooses the prefill endpoint, by
the requests that it works on, and decode goes to the fewest outstanding tokens.
"""

from dataclasses import dataclass

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.halves import prefill_work, whole_work
from vicinal.policies.pick import pick


@dataclass(slots=True)
class LMetric:
    name: str = "lmetric"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        new_tokens, requests = prefill_work(request, table)
        i = pick(table.serving, new_tokens * requests, new_tokens, chance=chance)
        j = pick(table.usable_from(i), table.decode.outstanding_tokens, chance=chance)
        return Choice(
            i, j, f"{new_tokens[i]:.0f} new tokens × {requests[i]:.0f} requests, then the least loaded decode"
        )

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        new_tokens, requests = whole_work(request, table)
        j = pick(table.usable_local, new_tokens * requests, new_tokens, chance=chance)
        return Choice(table.local_row, j, f"{new_tokens[j]:.0f} new tokens × {requests[j]:.0f} requests")
