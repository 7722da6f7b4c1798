"""Where to decode is pencilled in at arrival and decided when the prefill is done."""

import pytest

from tests.builders import racks, request
from tests.scheduler.play import Play, idle, only
from vicinal.domain.effects import Dispatch, Record
from vicinal.domain.ids import EndpointId

FLEET = racks(1, 1, 2)


def slot(play: Play, endpoint: str) -> int:
    found = play.scheduler.state.slot(EndpointId(endpoint))
    assert found is not None
    return found


@pytest.mark.mission("B11")
def test_decode_goes_elsewhere_when_the_pencilled_place_filled_up_in_between() -> None:
    play = Play(FLEET)
    pencilled = only(Dispatch, play.arrive(request("a"))).plan.decode
    for _ in range(2):  # a stranger counts when two reports in a row show it
        play.reported(pencilled, 0.1, running=200, kv_usage=0.5)
    handed = play.prefilled("a", 0.5)
    assert only(Dispatch, handed).plan.decode != pencilled
    assert only(Record, handed).decision.chosen.plan.decode != pencilled


def test_decode_stays_where_nothing_changed() -> None:
    """The request's own pencil mark is no load: it must not drive the request away from its place."""
    for seed in range(8):
        play = Play(FLEET, seed=seed)
        play.reported("r1-d2", running=3, kv_usage=0.1)
        play.reported("r1-d2", running=3, kv_usage=0.1)
        assert only(Dispatch, play.arrive(request("a"))).plan.decode == "r1-d1"
        assert only(Dispatch, play.prefilled("a", 0.5)).plan.decode == "r1-d1"


def test_an_endpoint_for_one_sequence_is_not_full_of_its_own_pencil_mark() -> None:
    fleet = racks(1, 1, 1, sequences_max=1)
    play = Play(fleet)
    play.arrive(request("a"))
    decision = only(Record, play.prefilled("a", 0.5)).decision
    assert decision.verdicts == (), "nobody was left out, so nobody had to be let in again"


def test_a_pencilled_decode_counts_as_batch_but_holds_no_memory() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a"))
    ledger, there = play.scheduler.state.ledger, slot(play, "r1-d1")
    assert (ledger.pencilled_count[there], ledger.decode_count[there]) == (1, 0)
    assert ledger.blocks_reserved[there] == 0
    play.prefilled("a", 0.5)
    assert (ledger.pencilled_count[there], ledger.decode_count[there]) == (0, 1)
    assert ledger.blocks_reserved[there] == -(-(4096 + 100) // 16)
    assert ledger.blocks_reserved[slot(play, "r1-p1")] == 4096 // 16
    play.first_token("a", 0.1)
    assert ledger.blocks_reserved[slot(play, "r1-p1")] == 0, "the KV has left the prefill endpoint"
    play.finished("a")
    assert idle(play)


@pytest.mark.parametrize("policy_name", ["round_robin", "decode_first"])
def test_a_policy_that_binds_decode_at_arrival_keeps_it(policy_name: str) -> None:
    play = Play(FLEET, policy_name=policy_name)
    bound = only(Dispatch, play.arrive(request("a"))).plan.decode
    for _ in range(2):
        play.reported(bound, 0.1, running=200, kv_usage=0.5)
    handed = play.prefilled("a", 0.5)
    assert only(Dispatch, handed).plan.decode == bound
    assert "bound at arrival" in only(Record, handed).decision.reason


def test_a_bound_decode_that_died_is_chosen_anew() -> None:
    play = Play(FLEET, policy_name="round_robin")
    bound = only(Dispatch, play.arrive(request("a"))).plan.decode
    play.unreachable(bound)
    assert only(Dispatch, play.prefilled("a", 0.5)).plan.decode != bound


def test_work_that_is_under_way_is_placed_even_where_it_must_wait() -> None:
    """Its prefill is done and its KV holds memory: a full decode endpoint is better than none."""
    play = Play(racks(1, 1, 1, sequences_max=1))
    play.arrive(request("a"))
    play.arrive(request("b"))
    play.prefilled("a", 0.5)
    assert "b" in play.scheduler.turns.flow or "b" in play.scheduler.requests
    play.gone("b")

    full = Play(racks(1, 1, 1))
    full.arrive(request("a"))
    for _ in range(2):
        full.reported("r1-d1", running=300, kv_usage=1.0)
    handed = full.prefilled("a", 0.5)
    assert only(Dispatch, handed).plan.decode == "r1-d1"
    decision = only(Record, handed).decision
    ready_s = decision.chosen.terms[4]
    assert ready_s is not None
    assert ready_s > 0.0, "at the price of waiting for memory"
