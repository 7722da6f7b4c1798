"""Refusals name their cause: an unknown model, a prompt too long, nobody there."""

import pytest

from tests.builders import endpoint, racks, request
from tests.scheduler.play import Play, idle, kinds, only
from vicinal.domain.effects import Answer, Dispatch, Record, RecordObservation
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.ids import ModelId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.request import Request
from vicinal.domain.verdict import Rule


def refused(play: Play, asked: Request) -> Outcome:
    effects = play.arrive(asked)
    assert kinds(effects) == ["Answer", "RecordObservation"]
    outcome = only(Answer, effects).outcome
    assert only(RecordObservation, effects).observation.ending == outcome.ending
    assert idle(play)
    return outcome


def test_an_unknown_model() -> None:
    outcome = refused(Play(), request("a", model=ModelId("gpt-2")))
    assert (outcome.ending, outcome.ending.http_status) == (Ending.UNKNOWN_MODEL, 404)
    assert outcome.reason == "no endpoint serves gpt-2"
    assert outcome.retry_after_s is None


def test_a_prompt_too_long_for_everybody() -> None:
    outcome = refused(Play(racks(model_tokens_max=4096)), request("a", 4096))
    assert (outcome.ending, outcome.ending.http_status) == (Ending.TOO_LONG, 400)
    assert "4196 tokens do not fit its 4096" in outcome.reason
    assert outcome.retry_after_s is None


def test_a_prompt_that_no_memory_could_hold_is_too_long_as_well() -> None:
    outcome = refused(Play(racks(kv_blocks=200)), request("a", 4096))
    assert outcome.ending is Ending.TOO_LONG
    assert "4196 tokens do not fit its 3200" in outcome.reason, "the figure that is too small, not the model's"


def test_the_answer_needs_no_room_where_only_the_prompt_is_computed() -> None:
    """4,096 tokens fit 4,800; with an answer of 1,000 they would not."""
    play = Play([endpoint("p", Role.PREFILL, kv_blocks=300), endpoint("d", Role.DECODE)])
    assert only(Dispatch, play.arrive(request("a", 4096, 1000))).endpoint == "p"


def test_a_prompt_too_long_for_one_goes_to_another() -> None:
    fleet = [
        endpoint("p", Role.PREFILL),
        endpoint("d1", Role.DECODE, model_tokens_max=4096),
        endpoint("d2", Role.DECODE),
    ]
    arrived = Play(fleet).arrive(request("a", 5000))
    assert only(Dispatch, arrived).plan.decode == "d2"
    (verdict,) = only(Record, arrived).decision.verdicts
    assert (verdict.endpoint, verdict.rule, verdict.cure) == ("d1", Rule.TOO_LONG, "a shorter prompt")


def test_whoever_may_be_back_could_take_it_so_it_is_not_too_long() -> None:
    fleet = [
        endpoint("p", Role.PREFILL),
        endpoint("d1", Role.DECODE, model_tokens_max=4096),
        endpoint("d2", Role.DECODE),
    ]
    play = Play(fleet)
    play.unreachable("d2")
    assert play.arrive(request("a", 5000)) == []
    assert only(Dispatch, play.reported("d2", 0.1)).plan.decode == "d2"


@pytest.mark.parametrize(
    "fleet",
    [
        [],
        [endpoint("p", Role.PREFILL)],
        [endpoint("d", Role.DECODE)],
        [endpoint("p", Role.PREFILL), endpoint("d", Role.DECODE, model=ModelId("other"))],
    ],
    ids=["nobody", "no decode", "no prefill", "decode of another model"],
)
def test_a_fleet_that_lacks_a_pool_cannot_serve_now(fleet: list[Endpoint]) -> None:
    """The model is known (or nothing is), so the client is told to come back, not that its model does not exist."""
    outcome = refused(Play(fleet), request("a"))
    assert (outcome.ending, outcome.ending.http_status) == (Ending.NO_ENDPOINT, 503)
    assert 1.0 <= (outcome.retry_after_s or 0.0) < 5.0


@pytest.mark.mission("B12")
def test_an_endpoint_that_never_reported_is_not_used() -> None:
    """Unknown is not idle."""
    play = Play(racks(1, 1, 2), reported=False)
    assert refused(play, request("a")).ending is Ending.NO_ENDPOINT
    play.reported("r1-p1")
    assert "r1-d1 has never reported" in refused(play, request("b")).reason
    play.reported("r1-d2")
    arrived = play.arrive(request("c"))
    assert only(Dispatch, arrived).plan.decode == "r1-d2"
    (verdict,) = only(Record, arrived).decision.verdicts
    assert (verdict.endpoint, verdict.rule, verdict.cure) == ("r1-d1", Rule.UNHEALTHY, "its first report")


@pytest.mark.mission("B12")
def test_a_report_that_is_too_old_is_unknown_and_a_new_one_cures_it() -> None:
    from vicinal.cluster.freshness import FreshnessRule

    play = Play(racks(1, 1, 1), freshness=FreshnessRule(heartbeat_s=1.0))
    play.now = 10.0
    assert only(Dispatch, play.arrive(request("old"))).endpoint == "r1-p1"
    play.gone("old")
    play.now = 10.5
    assert "has not reported for 10.5 s" in refused(play, request("b")).reason
    play.reported("r1-p1")
    play.reported("r1-d1")
    assert kinds(play.arrive(request("c"))) == ["Record", "Dispatch"]


@pytest.mark.mission("B12")
def test_an_unreachable_endpoint_is_left_out_until_it_reports() -> None:
    play = Play(racks(1, 2, 1))
    play.unreachable("r1-p1")
    for n in range(6):
        assert only(Dispatch, play.arrive(request(f"a{n}"))).endpoint == "r1-p2"
    play.reported("r1-p1", 0.1)
    assert only(Dispatch, play.arrive(request("b"))).endpoint == "r1-p1"


def test_a_request_id_in_use_is_refused_and_the_first_goes_on() -> None:
    play = Play()
    play.arrive(request("a"))
    answer = only(Answer, play.arrive(request("a")))
    assert answer.outcome.ending is Ending.REJECTED
    play.prefilled("a", 0.5)
    play.first_token("a", 0.1)
    assert only(RecordObservation, play.finished("a")).observation.ending == Ending.DONE
    assert kinds(play.arrive(request("a"))) == ["Record", "Dispatch"], "once over, an id may come again"


def test_facts_about_strangers_are_passed_over() -> None:
    play = Play()
    assert play.reported("nobody") == []
    assert play.unreachable("nobody") == []
    assert play.gone("nobody") == []
