"""Decision tables of small fleets in a given state, and what a policy takes from them, by name."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from tests.builders import BLOCK_TOKENS, endpoint, request
from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.state import ClusterState
from vicinal.contracts.policy import Choice, Policy
from vicinal.cost.model import CostModel, Masks
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.request import Request
from vicinal.enginemodel.profiles import profile
from vicinal.topology.tree import TreeNetwork, tree_topology


def engines(count: int, leaves: int = 1) -> list[Endpoint]:
    """Aggregated engines that hand nothing off: e1, e2, …, dealt out to the leaves r1, r2, …"""
    return [endpoint(f"e{n + 1}", Role.BOTH, leaf=f"r{1 + n % leaves}", hands_off=False) for n in range(count)]


PROMPT = request("prompt", 1600)
"""100 blocks of 16 tokens."""


@dataclass(frozen=True)
class Situation:
    """A fleet as a policy finds it. `loads` are outstanding tokens, `cached` blocks of the prompt, `blocked` may not
    serve; all by endpoint name."""

    fleet: Sequence[Endpoint]
    loads: Mapping[str, float] = field(default_factory=dict)
    cached: Mapping[str, int] = field(default_factory=dict)
    blocked: Collection[str] = ()
    local: bool = False
    request: Request = PROMPT

    def _made(self) -> tuple[CostModel, ClusterState, np.ndarray, Masks]:
        state = ClusterState(
            BLOCK_TOKENS,
            lambda fleet: tree_topology(fleet, TreeNetwork(leaf_oversubscription=8.0)),
            FreshnessRule(),
        )
        state.change_fleet(self.fleet)
        cost = CostModel(profile)
        cost.rebuild(state.fleet, state.topology)
        out = np.array([e.id in self.blocked for e in self.fleet])
        apart = out | np.array([not e.hands_off for e in self.fleet])
        return cost, state, self._per_slot(self.cached).astype(np.int32), Masks(apart, apart, out | (not self.local))

    def _per_slot(self, figures: Mapping[str, float]) -> np.ndarray:
        names = {str(e.id) for e in self.fleet}
        assert set(figures) <= names
        return np.array([figures.get(e.id, 0) for e in self.fleet], dtype=np.float64)

    def table(self, prefill: str | None = None) -> Table:
        """The table at arrival, or, after a prefill on `prefill`, that of where to decode."""
        cost, state, cached, masks = self._made()
        loads = self._per_slot(self.loads)
        view = structs.replace(state.view(0.0), outstanding_prefill_tokens=loads, outstanding_decode_tokens=loads)
        if prefill is None:
            return cost.table(self.request, view, cached, masks)
        slot = [str(e.id) for e in self.fleet].index(prefill)
        return cost.decode_table(self.request, view, cached, masks, slot)

    def choose(self, policy: Policy, seed: int = 0, prefill: str | None = None) -> tuple[str, str]:
        """The names of the prefill and decode endpoint that `policy` takes."""
        table = self.table(prefill)
        choice = self.choice(policy, seed, table)
        slots = int(table.prefill.slots[choice.i]), int(table.decode.slots[choice.j])
        return str(self.fleet[slots[0]].id), str(self.fleet[slots[1]].id)

    def choice(self, policy: Policy, seed: int = 0, table: Table | None = None) -> Choice:
        table = self.table() if table is None else table
        chance = np.random.default_rng(seed)
        choice = policy.choose(self.request, table, Ranking(table, 9), chance)
        assert choice.reason
        if choice.i != table.local_row:
            assert table.usable[choice.i, choice.j], "a policy takes a row that can serve"
        return choice

    def choose_whole(self, policy: Policy, seed: int = 0) -> str:
        """The name of the endpoint that `policy` has serve the whole request, where that is all that can be done."""
        table, chance = self.table(), np.random.default_rng(seed)
        assert not table.serving.any()
        choice = policy.choose_whole(self.request, table, Ranking(table, 9), chance)
        assert choice.reason
        assert choice.i == table.local_row
        assert table.usable_local[choice.j], "a policy takes a row that can serve"
        return str(self.fleet[int(table.decode.slots[choice.j])].id)

    def whole_draws(self, make: Callable[[], Policy], seeds: int = 60) -> set[str]:
        """Likewise of a fresh policy under many seeds: the ties."""
        return {self.choose_whole(make(), seed) for seed in range(seeds)}

    def draws(self, make: Callable[[], Policy], seeds: int = 60) -> set[tuple[str, str]]:
        """All that a fresh policy takes under many seeds: the ties."""
        return {self.choose(make(), seed) for seed in range(seeds)}
