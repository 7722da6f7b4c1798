"""`netkv`: the decode choice of NetKV (arXiv 2606.03910): seconds of transfer by tier, then of queue and first step.

    d* = argmin  s_eff(d) / B_eff + latency(tier)  +  T_queue(d)  +  T_first_decode(d)
    s_eff = KV bytes that d does not hold;  B_eff = B(tier) · (1 - congestion(tier)) / (1 + own transfers of p in it)

Tiers are the levels of the topology; B(tier) is what one transfer gets when all that can send through its narrowest
link do (cost/pools.py). The paper's congestion comes from switches; here it is how much slower than promised transfers
of that tier have been (cost/pathspeed.py), which leaves out our own, as the paper does. `oracle=static` knows neither
congestion nor own transfers: tiers alone. T_queue is the time until d has room.

The paper leaves the prefill endpoint to whoever chooses it; here it is the one with the fewest outstanding tokens, and
so is the endpoint of a whole request, for which nothing moves.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.halves import Floats
from vicinal.policies.pick import least_loaded_whole, pick


@dataclass(slots=True)
class NetKV:
    name: str = "netkv"
    oracle: Literal["full", "static"] = "full"

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        i = pick(table.serving, table.prefill.outstanding_tokens, chance=chance)
        transfer_s = self._transfer_s(table, i)
        j = pick(table.usable_from(i), transfer_s + table.decode.ready_s + table.decode.step_s, chance=chance)
        return Choice(i, j, f"least loaded prefill, then transfer ({transfer_s[j]:.3f} s), room and first step")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        return least_loaded_whole(table, chance)

    def _transfer_s(self, table: Table, i: int) -> Floats:
        """(D,)"""
        network = table.network
        s_per_byte = network.nominal_s_per_byte_by_level
        if self.oracle == "full":
            sending = table.view.sending[table.prefill.slots[i]]
            s_per_byte = s_per_byte * np.maximum(network.factor_by_level, 1.0) * (1.0 + sending)
        level = network.paths.level[i]
        transfer_s: Floats = table.decode.moved_bytes * s_per_byte.take(level) + network.paths.latency_s[i]
        return transfer_s
