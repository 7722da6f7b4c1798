"""The fleet changes under requests in flight."""

from dataclasses import replace

import pytest

from tests.builders import endpoint, racks, request, tokens
from tests.scheduler.play import Play, idle, kinds, only
from vicinal.domain.effects import Cancel, Dispatch, RecordObservation
from vicinal.domain.endpoint import Role
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Leg

FLEET = racks(1, 2, 2)


def without(*names: str) -> list:
    return [e for e in FLEET if e.id not in names]


def test_an_endpoint_that_left_gets_no_more_work() -> None:
    play = Play(FLEET)
    play.fleet(without("r1-p1", "r1-d2"))
    for n in range(5):
        plan = only(Dispatch, play.arrive(request(f"a{n}"))).plan
        assert (plan.prefill, plan.decode) == ("r1-p2", "r1-d1")


@pytest.mark.parametrize("reach", ["prefilling", "transferring", "decoding"])
def test_requests_on_an_endpoint_that_left_can_end_well(reach: str) -> None:
    """A drained engine finishes what it has."""
    play = Play(FLEET)
    sent = only(Dispatch, play.arrive(request("a")))
    if reach != "prefilling":
        sent = only(Dispatch, play.prefilled("a", 0.5))
    if reach == "decoding":
        play.first_token("a", 0.1)
    play.fleet(without(sent.endpoint))
    if reach == "transferring":
        play.first_token("a", 0.1)
    effects = play.finished("a", 1.0)
    assert only(RecordObservation, effects).observation.ending == Ending.DONE
    assert idle(play)


@pytest.mark.parametrize("reach", ["prefilling", "decoding"])
def test_a_newcomer_in_the_slot_of_one_that_left_is_neither_busy_nor_filled(reach: str) -> None:
    play = Play(FLEET)
    prompt = tokens(8192, 3)
    sent = only(Dispatch, play.arrive(request("a", prompt)))
    if reach == "decoding":
        sent = only(Dispatch, play.prefilled("a", 0.5))
        play.first_token("a", 0.1)
    slot = play.scheduler.state.slot(sent.endpoint)
    gone = next(e for e in FLEET if e.id == sent.endpoint)
    play.fleet([*without(sent.endpoint), endpoint("new", gone.role)])
    assert play.scheduler.state.slot("new") == slot
    play.reported("new")
    view = play.scheduler.state.view(play.now)
    assert (view.wait_prefill_s[slot], view.decode_sequences[slot], view.blocks_in_use[slot]) == (0, 0, 0)
    match = play.scheduler.state.index.match(request("b", prompt).block_hashes, 5)
    assert match.expected[slot] == 0
    play.gone("a")
    assert idle(play)


@pytest.mark.mission("B12")
def test_a_prefill_whose_endpoint_left_is_done_again_elsewhere() -> None:
    """Nobody can say that its KV can still be fetched."""
    play = Play(FLEET)
    first = only(Dispatch, play.arrive(request("a"))).endpoint
    play.fleet(without(first))
    effects = play.prefilled("a", 0.5)
    assert kinds(effects) == ["Cancel", "Record", "Dispatch"]
    assert only(Cancel, effects).attempt == 1
    again = only(Dispatch, effects)
    assert (again.leg, again.attempt, again.endpoint != first) == (Leg.PREFILL, 2, True)


def test_a_restart_under_the_same_name_does_not_have_the_kv() -> None:
    play = Play(FLEET)
    first = only(Dispatch, play.arrive(request("a"))).endpoint
    play.fleet([replace(e, url="http://elsewhere") if e.id == first else e for e in FLEET])
    play.reported(first)
    effects = play.prefilled("a", 0.5)
    assert kinds(effects) == ["Cancel", "Record", "Dispatch"]
    assert only(Dispatch, effects).attempt == 2


def test_a_role_that_changes_under_a_prefill() -> None:
    play = Play(FLEET)
    first = only(Dispatch, play.arrive(request("a"))).endpoint
    play.fleet([replace(e, role=Role.DECODE) if e.id == first else e for e in FLEET])
    play.reported(first)
    assert only(Dispatch, play.prefilled("a", 0.5)).endpoint != first


def test_a_pencilled_decode_that_left_is_replaced() -> None:
    play = Play(FLEET)
    pencilled = only(Dispatch, play.arrive(request("a"))).plan.decode
    play.fleet(without(pencilled))
    assert only(Dispatch, play.prefilled("a", 0.5)).endpoint != pencilled
    play.first_token("a", 0.1)
    play.finished("a")
    assert idle(play)


def test_an_unchanged_fleet_changes_nothing() -> None:
    play = Play(FLEET)
    play.arrive(request("a"))
    play.prefilled("a", 0.5)
    before = play.scheduler.state.ledger.link_flows.tolist()
    assert sum(before) == 2
    play.fleet(FLEET)
    assert play.scheduler.state.ledger.link_flows.tolist() == before
    play.fleet(list(reversed(FLEET)))
    play.first_token("a", 0.1)
    play.finished("a")
    assert idle(play)


def test_held_requests_are_placed_when_endpoints_come() -> None:
    small = racks(1, 1, 1, sequences_max=1)
    play = Play(small)
    play.arrive(request("a"))
    assert play.arrive(request("b")) == []
    assert play.fleet([*small, endpoint("d2", Role.DECODE)]) == [], "it has not reported yet"
    assert only(Dispatch, play.reported("d2")).request_id == "b"
