"""`affinity`: `decode_first`, unless enough of the prompt is cached on a prefill endpoint: then `prefill_first`.

The switch of MISSION A3/A4. A short shared prefix (a system prompt that everybody sends) is not worth piling all
requests onto its holder, so the cached share of the prompt must reach `least_cached_share`.
"""

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.request import Request
from vicinal.policies.decode_first import DecodeFirst
from vicinal.policies.prefill_first import PrefillFirst


@dataclass(slots=True)
class Affinity:
    name: str = "affinity"
    least_cached_share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    _cached: PrefillFirst = field(default_factory=PrefillFirst)
    _fresh: DecodeFirst = field(default_factory=DecodeFirst)

    def choose(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        cached_tokens = float(table.prefill.cached_tokens[table.serving].max())
        return self._rule(request, cached_tokens).choose(request, table, ranking, chance)

    def choose_whole(self, request: Request, table: Table, ranking: Ranking, chance: Stream) -> Choice:
        cached_tokens = float(table.decode.local_cached_tokens[table.usable_local].max())
        return self._rule(request, cached_tokens).choose_whole(request, table, ranking, chance)

    def _rule(self, request: Request, cached_tokens: float) -> PrefillFirst | DecodeFirst:
        cached_share = cached_tokens / max(request.prompt_tokens, 1)
        return self._cached if cached_share >= self.least_cached_share else self._fresh
