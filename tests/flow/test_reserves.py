"""Reserves against sums made anew, and what they are for: room is there when the tenant comes."""

from collections import defaultdict
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import MODEL, endpoint, request
from vicinal.cluster.fleet import Fleet
from vicinal.cluster.ledger import DecodeWork, Ledger
from vicinal.domain.endpoint import Role
from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId
from vicinal.domain.request import Request
from vicinal.flow.reserves import Reserves
from vicinal.flow.tenants import EVERYBODY, Tenant, Tenants

OTHER = ModelId("other")
SHARES = {"a": 0.25, "b": 0.1, "c": 0.0}
TENANTS = Tenants([Tenant(TenantId(name), reserved_share=share) for name, share in SHARES.items()])


def fleet_of(*endpoints: tuple[int, int]) -> Fleet:
    fleet = Fleet()
    made = [endpoint(f"e{n}", Role.BOTH, kv_blocks=b, sequences_max=s) for n, (b, s) in enumerate(endpoints)]
    fleet.change(made)
    return fleet


def of(name: str, tenant: str, **changes: object) -> Request:
    return request(name, 16, tenant=TenantId(tenant), **changes)


STEP = st.tuples(
    st.sampled_from(["hold", "decode", "pencil", "rub", "close", "free", "release", "resize"]), st.integers(0, 2**31)
)


@pytest.mark.mission("B6")
@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_what_is_kept_is_what_all_open_reservations_leave_of_each_share(steps: list[tuple[str, int]]) -> None:
    fleet = fleet_of((1000, 50), (333, 7))
    ledger = Ledger()
    reserves = Reserves(TENANTS, ledger)
    ledger.resize(2, 0)
    blocks: dict[tuple[str, int], int] = {}
    pencilled: dict[str, int] = {}
    decodes: dict[str, int] = {}
    for what, choice in steps:
        tenant, slot = "abcd"[choice % 4], choice // 4 % 2
        name = RequestId(f"{tenant}{choice // 8 % 3}")
        reserves.begin(of(name, tenant))
        if what == "hold":
            blocks[name, slot] = choice // 24 % 200
            ledger.hold_blocks(name, slot, blocks[name, slot])
        elif what == "free":
            blocks.pop((name, slot), None)
            ledger.free_blocks(name, slot)
        elif what == "decode" and name not in decodes:
            decodes[name] = slot
            ledger.open_decode(name, DecodeWork(slot, 10.0, 20))
        elif what == "pencil" and name not in pencilled:
            pencilled[name] = slot
            ledger.pencil_decode(name, DecodeWork(slot, 10.0, 20))
        elif what == "rub":
            pencilled.pop(name, None)
            ledger.rub_out_decode(name)
        elif what == "close":
            decodes.pop(name, None)
            ledger.close_decode(name)
        elif what == "release":
            blocks = {key: held for key, held in blocks.items() if key[0] != name}
            pencilled.pop(name, None)
            decodes.pop(name, None)
            ledger.release(name, 0.0)
        else:
            ledger.resize(2, choice % 3)
    for asking in "abcd":
        kept = reserves.kept_from(of("asking", asking), fleet)
        assert kept is not None
        for slot, one in enumerate(fleet.endpoints):
            kept_blocks = kept_sequences = 0
            for tenant, share in SHARES.items():
                if tenant != asking:
                    held = sum(n for (owner, at), n in blocks.items() if at == slot and owner[0] == tenant)
                    begun = [at for owners in (pencilled, decodes) for o, at in owners.items() if o[0] == tenant]
                    kept_blocks += max(0, floor(share * one.kv_blocks) - held)
                    kept_sequences += max(0, floor(share * one.sequences_max) - begun.count(slot))
            assert kept.blocks[slot] == kept_blocks
            assert kept.sequences[slot] == kept_sequences


@pytest.mark.mission("B6")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 60), st.booleans(), st.integers(0, 99)), max_size=60))
def test_whoever_has_a_share_finds_it_while_others_take_what_they_may(
    steps: list[tuple[str, int, bool, int]],
) -> None:
    fleet = fleet_of((200, 20))
    ledger = Ledger()
    reserves = Reserves(TENANTS, ledger)
    ledger.resize(1, 0)
    live: dict[str, list[tuple[RequestId, int]]] = defaultdict(list)
    for number, (tenant, need, ends, choice) in enumerate(steps):
        if ends and live[tenant]:
            name, _ = live[tenant].pop(choice % len(live[tenant]))
            ledger.release(name, 0.0)
        asked = of(f"q{number}", tenant)
        kept = reserves.kept_from(asked, fleet)
        assert kept is not None
        free_blocks = 200 - ledger.blocks_reserved[0] - kept.blocks[0]
        free_sequences = 20 - ledger.decode_count[0] - kept.sequences[0]
        if need <= free_blocks and free_sequences > 0:
            reserves.begin(asked)
            ledger.hold_blocks(asked.id, 0, need)
            ledger.open_decode(asked.id, DecodeWork(0, 1.0, 1))
            live[tenant].append((asked.id, need))
        for name, share in SHARES.items():
            used = sum(blocks for _, blocks in live[name])
            assert 200 - ledger.blocks_reserved[0] >= floor(share * 200) - used
            assert 20 - ledger.decode_count[0] >= floor(share * 20) - len(live[name])


def test_a_share_of_a_model_is_of_its_endpoints() -> None:
    fleet = Fleet()
    fleet.change([endpoint("e0", Role.BOTH, kv_blocks=100), endpoint("e1", Role.BOTH, kv_blocks=100, model=OTHER)])
    general = Tenant(TenantId("a"), reserved_share=0.5)
    special = Tenant(TenantId("a"), OTHER, reserved_share=0.2)
    reserves = Reserves(Tenants([general, special, Tenant(EVERYBODY)]), ledger := Ledger())
    ledger.resize(2, 0)
    kept = reserves.kept_from(of("q", "b"), fleet)
    assert kept is not None
    assert list(kept.blocks) == [50, 20]


def test_the_shares_follow_the_fleet() -> None:
    fleet = fleet_of((100, 8))
    reserves = Reserves(TENANTS, ledger := Ledger())
    ledger.resize(1, 0)
    before = reserves.kept_from(of("q", "d"), fleet)
    fleet.change([endpoint("e0", Role.BOTH, kv_blocks=1000), endpoint("e1", Role.BOTH, kv_blocks=100)])
    ledger.resize(2, 0)
    after = reserves.kept_from(of("q", "d"), fleet)
    assert before is not None
    assert after is not None
    assert [list(before.blocks), list(after.blocks)] == [[35], [350, 35]]


def test_reserved_endpoints_are_for_those_who_name_them() -> None:
    fleet = fleet_of((100, 8), (100, 8), (100, 8))
    e0, e1, gone = EndpointId("e0"), EndpointId("e1"), EndpointId("gone")
    reserves = Reserves(
        Tenants(
            [
                Tenant(TenantId("a"), reserved_endpoints=(e0, e1)),
                Tenant(TenantId("b"), reserved_endpoints=(e1,)),
                Tenant(TenantId("b"), MODEL, reserved_endpoints=(gone,)),
            ]
        ),
        Ledger(),
    )
    out = {tenant: reserves.endpoints_of_others(of("q", tenant), fleet) for tenant in "abc"}
    assert {tenant: [] if mask is None else np.flatnonzero(mask).tolist() for tenant, mask in out.items()} == {
        "a": [],
        "b": [0],
        "c": [0, 1],
    }


def test_nothing_is_looked_at_where_nothing_is_reserved() -> None:
    reserves = Reserves(Tenants([Tenant(EVERYBODY), Tenant(TenantId("a"))]), ledger := Ledger())
    fleet = fleet_of((100, 8))
    assert reserves.kept_from(of("q", "a"), fleet) is None
    assert reserves.endpoints_of_others(of("q", "a"), fleet) is None
    reserves.begin(of("q", "a"))
    assert ledger.parties() == {}
