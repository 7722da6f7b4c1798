"""Slots outlive changes of the fleet."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import MODEL, endpoint
from vicinal.cluster.fleet import Fleet
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.ids import ModelId

OTHER = ModelId("other")


def one(name: str, changed: bool, role: Role = Role.BOTH) -> Endpoint:
    return endpoint(name, role, kv_blocks=200 if changed else 100, model=OTHER if name in "fg" else MODEL)


FLEETS = st.lists(
    st.builds(one, st.sampled_from("abcdefg"), st.booleans(), st.sampled_from(list(Role))),
    max_size=7,
    unique_by=lambda e: e.id,
)


@settings(deadline=None, max_examples=150)
@given(st.lists(FLEETS, max_size=8))
def test_any_sequence_of_changes(changes: list[list[Endpoint]]) -> None:
    fleet = Fleet()
    for endpoints in changes:
        before, described = dict(fleet.slots), {e.id: e for e in fleet.endpoints}
        size = len(fleet)
        left, came = fleet.change(endpoints)

        assert {fleet.endpoints[slot].id: slot for slot in fleet.slots.values()} == fleet.slots
        assert {fleet.endpoints[slot] for slot in fleet.slots.values()} == set(endpoints)
        wanted = {e.id: e for e in endpoints}
        stayed = {id_ for id_ in before if wanted.get(id_) == described[id_]}
        for id_ in before.keys() & wanted.keys():
            assert fleet.slots[id_] == before[id_], "an endpoint that stays, changed or not, keeps its slot"
        assert set(left) == {slot for id_, slot in before.items() if id_ not in stayed}
        assert set(came) == {slot for id_, slot in fleet.slots.items() if id_ not in stayed}
        assert (len(left), len(came)) == (len(set(left)), len(set(came)))

        assert size <= len(fleet) <= max(size, len(endpoints)), "no slot is lost, and none made while one is free"
        ids = [e.id for e in fleet.endpoints]
        assert len(ids) == len(set(ids)), "nobody stands in two slots, not even as a ghost"
        assert set(np.flatnonzero(fleet.active)) == set(fleet.slots.values())


@settings(deadline=None, max_examples=60)
@given(st.lists(FLEETS, min_size=1, max_size=4))
def test_arrays_are_what_endpoints_say(changes: list[list[Endpoint]]) -> None:
    fleet = Fleet()
    for endpoints in changes:
        fleet.change(endpoints)
    for slot, e in enumerate(fleet.endpoints):
        assert fleet.prefills[slot] == e.role.prefills
        assert fleet.decodes[slot] == e.role.decodes
        assert fleet.kv_blocks[slot] == e.kv_blocks
        assert fleet.block_tokens[slot] == e.block_tokens
        assert fleet.kv_bytes_per_token[slot] == e.kv_bytes_per_token
        assert fleet.sequences_max[slot] == e.sequences_max
        assert fleet.model_tokens_max[slot] == e.model_tokens_max
    for model in (MODEL, OTHER, ModelId("nobody's")):
        serving = {slot for slot in fleet.slots.values() if fleet.endpoints[slot].model == model}
        assert set(np.flatnonzero(fleet.of_model(model))) == serving
        assert len(fleet.of_model(model)) == len(fleet)


@pytest.mark.mission("B12")
def test_a_newcomer_takes_the_slot_of_one_that_left() -> None:
    fleet = Fleet()
    fleet.change([one("a", False), one("b", False), one("c", False)])
    assert fleet.change([one("c", False), one("d", False)]) == ([0, 1], [0])
    assert fleet.slots == {"c": 2, "d": 0}
    assert fleet.change([one("b", False), one("c", False), one("d", False)]) == ([], [1])
