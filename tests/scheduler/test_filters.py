"""The filters, which skip what one number settles, against each rule asked of each endpoint by itself."""

from collections.abc import Collection
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.builders import BLOCK_TOKENS, endpoint, request
from tests.cost.worlds import loaded
from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.ledger import DecodeWork
from vicinal.cluster.state import ClusterState
from vicinal.cluster.view import View
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.ids import ModelId, TenantId
from vicinal.domain.request import Request
from vicinal.domain.verdict import FULL, Rule
from vicinal.flow.breakers import LeftOut
from vicinal.flow.reserves import Reserves
from vicinal.flow.tenants import Tenant, Tenants
from vicinal.scheduler.filters import filtered
from vicinal.topology.tree import TreeNetwork, tree_topology

MODELS = ("llama-3.1-70b", "other")


def one(rng: np.random.Generator, n: int) -> Endpoint:
    role = Role(str(rng.choice(list(Role))))
    return endpoint(
        f"e{n}",
        role,
        model=ModelId(MODELS[int(rng.random() < 0.1)]),
        kv_blocks=int(rng.choice([100, 300, 5_000])),
        block_tokens=int(rng.choice([16, 32])),
        model_tokens_max=int(rng.choice([2_000, 131_072])),
        sequences_max=int(rng.choice([5, 256])),
        hands_off=bool(role is not Role.BOTH or rng.random() < 0.5),
    )


SHARES = {"a": 0.3, "b": 0.15}


def reserves_of(rng: np.random.Generator, fleet: list[Endpoint], state: ClusterState) -> Reserves:
    """Nothing is reserved, or shares are, some of them in use, or endpoints, or both."""
    if rng.random() < 0.3:
        return Reserves(Tenants(), state.ledger)
    named = [e.id for e in fleet if rng.random() < 0.2]
    said = (
        [Tenant(TenantId(name), reserved_share=share) for name, share in SHARES.items()] if rng.random() < 0.7 else []
    )
    reserves = Reserves(Tenants([*said, Tenant(TenantId("c"), reserved_endpoints=tuple(named))]), state.ledger)
    for n in range(int(rng.integers(0, 12))):
        held = request(f"h{n}", 16, tenant=TenantId(str(rng.choice(list("abc")))))
        slot = int(rng.integers(0, len(state.fleet)))
        reserves.begin(held)
        state.ledger.hold_blocks(held.id, slot, int(rng.integers(0, 60)))
        state.ledger.open_decode(held.id, DecodeWork(slot, 1.0, 1))
    return reserves


def kept(state: ClusterState, slot: int, wanted: Request, shares: dict[str, float], of: str) -> float:
    """What is left of the others' shares there, of "blocks" or "sequences", reservation by reservation."""
    e, ledger = state.fleet.endpoints[slot], state.ledger
    total = 0
    for party, (name, share) in enumerate(shares.items()):
        if name != wanted.tenant:
            owners = {owner for owner, of_party in ledger.parties().items() if of_party == party}
            blocks = sum(n for (owner, at), n in ledger.blocks.items() if at == slot and owner in owners)
            sequences = sum(work.slot == slot for owner, work in ledger.decodes.items() if owner in owners)
            there, used = (e.kv_blocks, blocks) if of == "blocks" else (e.sequences_max, sequences)
            total += max(0, floor(share * there) - used)
    return total


def situation(seed: int) -> tuple[View, Request, set[str], bool, Reserves, ClusterState, dict[int, LeftOut]]:
    rng = np.random.default_rng(seed)
    fleet = [one(rng, n) for n in range(int(rng.integers(1, 9)))]
    state = ClusterState(BLOCK_TOKENS, lambda fleet: tree_topology(fleet, TreeNetwork()), FreshnessRule())
    state.change_fleet(fleet)
    if rng.random() < 0.3:
        state.change_fleet(fleet[1:])
    reserves = reserves_of(rng, fleet, state)
    view = loaded(rng, state.view(0.0), full_share=float(rng.choice([0.0, 0.3])), flows_max=0)
    answers = rng.random(len(fleet)) < rng.choice([0.5, 1.0])
    view = structs.replace(
        view,
        known=answers | (rng.random(len(fleet)) < 0.5),
        usable=answers & view.fleet.active,
        reported_s=np.zeros(len(fleet)),
    )
    wanted = request(
        "q",
        int(rng.choice([10, 1_000, 3_000])),
        output_tokens=int(rng.integers(1, 3_000)),
        splittable=bool(rng.random() < 0.8),
        model=ModelId(MODELS[int(rng.random() < 0.1)]),
        tenant=TenantId(str(rng.choice(list("abcd")))),
    )
    tried = {str(e.id) for e in fleet if rng.random() < 0.1}
    share = rng.choice([0.0, 0.3, 0.9])
    left_out = {slot: LeftOut(0.0, None, "reset") for slot in range(len(fleet)) if rng.random() < share}
    return view, wanted, tried, bool(rng.random() < 0.5), reserves, state, left_out


def naive_rule(
    view: View,
    slot: int,
    wanted: Request,
    tried: set[str],
    reserves: Reserves,
    state: ClusterState,
    closed: Collection[int],
    but: Collection[Rule] = (),
) -> Rule | None:
    """The first rule against it, those in `but` set aside."""
    e = view.fleet.endpoints[slot]
    tokens = wanted.prompt_tokens + (wanted.expected_output_tokens if e.role.decodes else 0)
    if e.model != wanted.model:
        return Rule.MODEL
    if wanted.prompt_tokens >= e.model_tokens_max or tokens > e.kv_tokens:
        return Rule.TOO_LONG
    tenants = reserves.tenants.all
    if wanted.tenant != "c" and any(e.id in tenant.reserved_endpoints for tenant in tenants):
        return Rule.RESERVED
    if not view.known[slot]:
        return Rule.UNHEALTHY
    if e.id in tried:
        return Rule.TRIED
    if not view.usable[slot]:
        return Rule.UNREACHABLE
    if slot in closed:
        return Rule.CIRCUIT
    if Rule.HEADROOM in but:
        return None
    if ceil(tokens / e.block_tokens) > view.free_blocks[slot] and view.blocks_in_use[slot] > 0:
        return Rule.HEADROOM
    if e.role.decodes and view.decode_sequences[slot] >= e.sequences_max:
        return Rule.SEQUENCES
    shares = {str(tenant.name): tenant.reserved_share for tenant in tenants if tenant.reserved_share}
    if shares and ceil(tokens / e.block_tokens) > view.free_blocks[slot] - kept(state, slot, wanted, shares, "blocks"):
        return Rule.SHARE
    left = e.sequences_max - kept(state, slot, wanted, shares, "sequences")
    if e.role.decodes and shares and view.decode_sequences[slot] >= left:
        return Rule.SHARE
    return None


@pytest.mark.mission("B3", "B6")
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1_000_000))
def test_against_each_rule_asked_of_each_endpoint(seed: int) -> None:
    view, wanted, tried, local_allowed, reserves, state, left_out = situation(seed)
    out = filtered(wanted, view, tried, local_allowed, reserves, left_out)  # type: ignore[arg-type]
    fleet = view.fleet
    present = [slot for slot in range(len(fleet)) if fleet.active[slot]]

    def serves(closed: Collection[int]) -> bool:
        """Whether somebody can who is not full, or will be able to when he is not."""
        free = [s for s in present if naive_rule(view, s, wanted, tried, reserves, state, closed, FULL) is None]
        ends = [fleet.endpoints[s] for s in free]
        pair = any(e.role.prefills and e.hands_off for e in ends) and any(e.role.decodes and e.hands_off for e in ends)
        alone = local_allowed or not wanted.splittable
        return (pair and wanted.splittable) or any(e.role.decodes and (alone or e.role.prefills) for e in ends)

    closed = left_out.keys() if serves(left_out.keys()) or not serves(()) else ()
    against = {slot: naive_rule(view, slot, wanted, tried, reserves, state, closed) for slot in present}
    assert [(v.endpoint, v.rule) for v in out.verdicts()] == [
        (fleet.endpoints[slot].id, rule) for slot, rule in against.items() if rule is not None
    ]
    for slot, e in enumerate(fleet.endpoints):
        free = slot in against and against[slot] is None
        assert out.masks.prefill_blocked[slot] == (not (free and e.role.prefills and e.hands_off and wanted.splittable))
        assert out.masks.decode_blocked[slot] == (not (free and e.role.decodes and e.hands_off))
        local = free and e.role.decodes and (local_allowed or not wanted.splittable or e.role.prefills)
        assert out.masks.local_blocked[slot] == (not local)
