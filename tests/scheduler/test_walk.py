"""A request's walk, as events in and effects out."""

import pytest

from tests.builders import endpoint, racks, request, tokens
from tests.scheduler.play import Play, idle, kinds, only
from vicinal.domain.decision import TERMS
from vicinal.domain.effects import Dispatch, Record, RecordObservation
from vicinal.domain.endpoint import Role
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Action, Leg


@pytest.mark.mission("B11")
def test_a_hand_off_is_two_legs_each_recorded_before_it_is_sent() -> None:
    play = Play()
    arrived = play.arrive(request("a"), 1.0)
    assert kinds(arrived) == ["Record", "Dispatch"]
    first = only(Record, arrived).decision
    prefill = only(Dispatch, arrived)
    assert (prefill.leg, prefill.attempt, prefill.endpoint) == (Leg.PREFILL, 1, first.chosen.plan.prefill)
    assert (first.leg, first.attempt, first.at_s, first.arrived_s) == (Leg.PREFILL, 1, 1.0, 1.0)

    handed = play.prefilled("a", 0.5, cached=64)
    assert kinds(handed) == ["Record", "Dispatch"]
    second = only(Record, handed).decision
    decode = only(Dispatch, handed)
    assert (decode.leg, decode.attempt, decode.endpoint) == (Leg.DECODE, 1, second.chosen.plan.decode)
    assert decode.plan.prefill == prefill.endpoint
    assert (second.leg, second.attempt, second.at_s, second.arrived_s) == (Leg.DECODE, 1, 1.5, 1.0)

    assert play.first_token("a", 0.25) == []
    ended = play.finished("a", 2.0, tokens=101)
    assert kinds(ended) == ["RecordObservation"]
    seen = only(RecordObservation, ended).observation
    assert (seen.ending, seen.attempts, seen.output_tokens, seen.cached_tokens) == (Ending.DONE, 1, 101, 64)
    assert (seen.ttft_s, seen.prefill_s, seen.e2e_s) == (0.75, 0.5, 2.75)
    assert seen.tpot_s == pytest.approx(2.0 / 100)
    assert seen.predicted_ttft_s == first.chosen.terms[TERMS.index("ttft")]
    assert seen.moved_tokens == 4096
    assert idle(play)


def test_what_one_engine_must_do_alone_is_one_leg() -> None:
    play = Play()
    arrived = play.arrive(request("n2", splittable=False))
    whole = only(Dispatch, arrived)
    assert (whole.leg, whole.plan.prefill) == (Leg.WHOLE, whole.plan.decode)
    assert only(Record, arrived).decision.leg is Leg.WHOLE
    assert whole.plan.moved_tokens == 0
    assert play.first_token("n2", 0.3) == []
    seen = only(RecordObservation, play.finished("n2", 1.0)).observation
    assert (seen.ttft_s, seen.prefill_s, seen.moved_tokens) == (0.3, None, 0)
    assert idle(play)


def test_a_prefill_event_of_a_whole_plan_is_nobodys() -> None:
    play = Play()
    play.arrive(request("n2", splittable=False))
    assert play.prefilled("n2") == []
    play.first_token("n2")
    play.finished("n2")
    assert idle(play)


@pytest.mark.mission("B11")
def test_a_prefill_that_ends_the_request_has_no_second_leg() -> None:
    play = Play()
    play.arrive(request("eos"), 1.0)
    assert play.prefilled("eos", 0.5, handed_off=False) == []
    assert play.scheduler.state.ledger.pencilled == {}, "no decode follows"
    ended = play.finished("eos", tokens=1)
    seen = only(RecordObservation, ended).observation
    assert (seen.ending, seen.ttft_s, seen.tpot_s, seen.output_tokens) == (Ending.DONE, 0.5, None, 1)
    assert idle(play)


def test_a_pool_of_aggregated_engines_serves_without_a_hand_off() -> None:
    play = Play([endpoint("b1", Role.BOTH), endpoint("b2", Role.BOTH)])
    whole = only(Dispatch, play.arrive(request("a")))
    assert (whole.leg, whole.plan.local) == (Leg.WHOLE, True)
    play.first_token("a")
    play.finished("a")
    assert idle(play)


def test_local_plans_are_for_decode_endpoints_only_where_settings_allow_them() -> None:
    fleet = [e for e in racks(1, 1, 1) if e.role is Role.DECODE]
    assert only(Dispatch, Play(fleet, local=True).arrive(request("a"))).leg is Leg.WHOLE
    assert kinds(Play(fleet).arrive(request("a"))) == ["Answer", "RecordObservation"]


def test_on_an_idle_fleet_a_local_plan_is_cheapest_and_a_busy_decode_sends_prefill_away() -> None:
    play = Play(racks(1, 1, 1), local=True)
    assert only(Dispatch, play.arrive(request("a"))).leg is Leg.WHOLE
    legs = [only(Dispatch, play.arrive(request(f"more-{n}"))).leg for n in range(3)]
    assert Leg.PREFILL in legs


@pytest.mark.mission("A7")
def test_only_what_decode_lacks_moves() -> None:
    """With 2,048 of the prompt's tokens at the decode endpoint, the other half travels."""
    play = Play(racks(1, 1, 1))
    prompt = tokens(4096, 1)
    play.stored("r1-d1", prompt[:2048])
    play.arrive(request("turn", prompt))
    plan = only(Dispatch, play.prefilled("turn", 0.5)).plan
    assert (plan.held_tokens, plan.moved_tokens) == (2048, 2048)
    transfer = play.scheduler.state.ledger.transfers["turn"]
    assert transfer.kv_bytes == 2048 * 327_680


@pytest.mark.mission("A7")
def test_the_next_turn_decodes_where_the_history_is() -> None:
    prompt = tokens(8192, 2)
    for holder in ("r1-d1", "r1-d2", "r2-d1", "r2-d2"):
        play = Play()
        play.stored(holder, prompt[:7680])
        arrived = play.arrive(request("turn", prompt, output_tokens=200))
        assert only(Dispatch, arrived).plan.decode == holder
        assert only(Record, arrived).decision.cache_location == holder


def test_the_action_says_whether_the_prefill_reuses_anything() -> None:
    play = Play(racks(1, 1, 1))
    prompt = tokens(4096, 3)
    fresh = only(Dispatch, play.arrive(request("fresh", prompt))).plan
    assert (fresh.action, fresh.cached_tokens) == (Action.RECOMPUTE, 0)
    play.stored("r1-p1", prompt[:1024])
    play.gone("fresh")
    again = only(Dispatch, play.arrive(request("again", prompt))).plan
    assert (again.action, again.cached_tokens) == (Action.HIT, 1024)
