"""`locality` (MISSION B1): work goes where its data is. Each token of the prompt costs what its place costs.

The places and their relative costs are the seed's. On the prefill endpoint a token is in its HBM, its host memory or
its SSD, or it is computed: no plan reads it from elsewhere. Behind it, on the decode endpoint, a token is in local HBM
or it comes from the memory of the prefill endpoint. Whoever has the smallest sum is taken, in one pool and then in the
other; among equals the least loaded. A remote SSD has its cost and is not used: no plan reads from one.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.sides import Below
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.pick import pick

Cost = Annotated[float, Meta(ge=0)]


@dataclass(slots=True)
class Locality:
    """Costs are per token and relative to each other."""

    name: str = "locality"
    local_hbm: Cost = 0.0
    local_cpu: Cost = 10.0
    local_ssd: Cost = 50.0
    remote_memory: Cost = 80.0
    remote_ssd: Cost = 150.0
    recompute: Cost = 200.0

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        prefill, decode = table.prefill, table.decode
        of_prefill = self._to_prefill(request, prefill.cached_tokens, prefill.below)
        i = pick(table.serving, of_prefill, prefill.outstanding_tokens, chance=chance)
        of_decode = self._per_token(request, decode.held_tokens, self.remote_memory)
        j = pick(table.usable_from(i), of_decode, decode.outstanding_tokens, chance=chance)
        return Choice(i, j, f"cost of place per token: {of_prefill[i]:.1f} to prefill, {of_decode[j]:.1f} to decode")

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        costs = self._to_prefill(request, table.decode.local_cached_tokens, table.decode.local_below)
        j = pick(table.usable_local, costs, table.local_outstanding_tokens, chance=chance)
        return Choice(table.local_row, j, f"cost of place per token: {costs[j]:.1f}")

    def _to_prefill(self, request: Request, cached: NDArray[np.float64], below: Below | None) -> NDArray[np.float64]:
        """Mean over the prompt, of which `cached` tokens are in some tier of the endpoint."""
        costs = self._per_token(request, cached, self.recompute)
        if below is None:
            return costs
        farther = below.host_tokens * (self.local_cpu - self.local_hbm) + below.ssd_tokens * (
            self.local_ssd - self.local_hbm
        )
        return costs + farther / max(request.prompt_tokens, 1)

    def _per_token(self, request: Request, here: NDArray[np.float64], elsewhere_cost: float) -> NDArray[np.float64]:
        """Mean over the prompt, of which `here` tokens are in local HBM."""
        return elsewhere_cost + (self.local_hbm - elsewhere_cost) * (here / max(request.prompt_tokens, 1))
