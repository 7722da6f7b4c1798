"""Legs that fail: another plan while the client has seen nothing, an honest end afterwards."""

import pytest

from tests.builders import racks, report, request, tokens
from tests.scheduler.play import Play, every, idle, kinds, only
from vicinal.domain.effects import Answer, Cancel, Dispatch, Record, RecordObservation, Warn
from vicinal.domain.events import EndpointReported, FirstToken, LegFailed, PrefillDone, RequestFinished
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Leg
from vicinal.domain.verdict import Rule
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.states import State

A = RequestId("a")


@pytest.mark.mission("B12")
def test_a_failed_prefill_is_planned_again_elsewhere() -> None:
    play = Play(racks(1, 2, 1))
    first = only(Dispatch, play.arrive(request("a"))).endpoint
    again = play.failed("a", Leg.PREFILL, 0.1)
    assert kinds(again) == ["Warn", "Record", "Dispatch"]
    assert (only(Warn, again).kind, only(Warn, again).endpoint) == ("leg_failed", first)
    sent = only(Dispatch, again)
    assert (sent.attempt, sent.leg) == (2, Leg.PREFILL)
    assert sent.endpoint != first
    decision = only(Record, again).decision
    assert decision.attempt == 2
    assert {v.endpoint: v.rule for v in decision.verdicts} == {first: Rule.TRIED}


def test_an_endpoint_that_failed_a_request_is_not_tried_again_even_when_it_is_back() -> None:
    play = Play(racks(1, 2, 1))
    first = only(Dispatch, play.arrive(request("a"))).endpoint
    second = only(Dispatch, play.failed("a", Leg.PREFILL)).endpoint
    play.reported(first, 0.1)
    ended = play.failed("a", Leg.PREFILL)
    assert only(Answer, ended).outcome.ending is Ending.NO_ENDPOINT
    play.reported(second, 0.1)
    assert only(Dispatch, play.arrive(request("b"))).endpoint in {first, second}, "others may use both"
    assert len(play.scheduler.requests) == 1


def test_a_failed_decode_is_planned_again_from_the_start() -> None:
    """Hand-off parameters are single-use, so a new decode needs a new prefill."""
    play = Play(racks(1, 1, 2))
    play.arrive(request("a"))
    decode = only(Dispatch, play.prefilled("a", 0.5, cached=32)).endpoint
    again = only(Dispatch, play.failed("a", Leg.DECODE, 0.1))
    assert (again.leg, again.attempt) == (Leg.PREFILL, 2)
    assert again.plan.decode != decode
    tracked = play.scheduler.requests[A]
    assert (tracked.prefill_done_s, tracked.cached_tokens) == (None, None), "the first attempt's figures are void"
    other = only(Dispatch, play.prefilled("a", 0.4))
    assert other.endpoint != decode
    play.first_token("a", 0.1)
    seen = only(RecordObservation, play.finished("a")).observation
    assert (seen.attempts, seen.prefill_s) == (2, pytest.approx(0.4))
    assert idle(play)


@pytest.mark.parametrize("attempts_max", [1, 2, 3])
def test_attempts_are_bounded(attempts_max: int) -> None:
    play = Play(racks(1, 4, 1), settings=SchedulerSettings(attempts_max=attempts_max))
    sent = every(Dispatch, play.arrive(request("a")))
    for _ in range(attempts_max - 1):
        sent += every(Dispatch, play.failed("a", Leg.PREFILL))
    assert [d.attempt for d in sent] == list(range(1, attempts_max + 1))
    assert len({d.endpoint for d in sent}) == attempts_max
    ended = play.failed("a", Leg.PREFILL)
    assert kinds(ended) == ["Warn", "Answer", "RecordObservation"]
    outcome = only(Answer, ended).outcome
    assert outcome.ending is Ending.ENGINE_FAILED
    assert outcome.retry_after_s is not None
    assert only(RecordObservation, ended).observation.attempts == attempts_max
    assert idle(play)


@pytest.mark.parametrize("told", [True, False])
def test_after_the_first_byte_a_failure_ends_the_stream(told: bool) -> None:
    """Whether the driver says `started` or only its first token did: half an answer is not begun again."""
    play = Play(racks(1, 1, 2))
    play.arrive(request("a"))
    play.prefilled("a", 0.5)
    if not told:
        play.first_token("a", 0.1)
    ended = play.failed("a", Leg.DECODE, 0.1, started=told)
    assert kinds(ended) == ["Warn", "Answer", "RecordObservation"]
    assert only(Answer, ended).outcome.ending is Ending.STREAM_BROKEN
    assert idle(play)


def test_the_clients_fault_is_no_endpoints_fault() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a"))
    ended = play.failed("a", Leg.PREFILL, client_fault=True)
    assert kinds(ended) == ["Answer", "RecordObservation"]
    outcome = only(Answer, ended).outcome
    assert (outcome.ending, outcome.reason) == (Ending.REJECTED, "connection reset")
    assert only(Dispatch, play.arrive(request("b"))).endpoint == "r1-p1"


def test_late_events_of_an_abandoned_attempt_change_nothing() -> None:
    play = Play(racks(1, 2, 2))
    play.arrive(request("a"))
    play.failed("a", Leg.PREFILL)
    late = (
        PrefillDone(A, 1, 0),
        FirstToken(A, 1),
        RequestFinished(A, 1, 10),
        LegFailed(A, 1, Leg.PREFILL, "late"),
        LegFailed(A, 1, Leg.DECODE, "late", started=True),
        LegFailed(A, 1, Leg.PREFILL, "late", client_fault=True),
    )
    for event in late:
        assert play.feed(event) == []
        assert play.scheduler.requests[A].state is State.PREFILLING


def test_late_events_do_not_move_a_request_that_waits_for_another_plan() -> None:
    play = Play(racks(1, 2, 1, sequences_max=1))
    play.arrive(request("b"))
    for _ in range(2):
        play.reported("r1-d1", running=3)
    assert play.failed("b", Leg.PREFILL) != []
    tracked = play.scheduler.requests[RequestId("b")]
    assert tracked.state is State.HELD
    for event in (
        PrefillDone(tracked.id, 1, 0),
        FirstToken(tracked.id, 1),
        RequestFinished(tracked.id, 1, 10),
        LegFailed(tracked.id, 1, Leg.PREFILL, "late"),
    ):
        assert play.feed(event) == []
        assert tracked.state is State.HELD
    assert kinds(play.gone("b")) == ["Cancel", "RecordObservation"]


def test_a_failure_of_the_other_leg_is_late() -> None:
    """The prefill leg ended when it handed off: it cannot fail any more, and its endpoint is not blamed."""
    play = Play(racks(1, 1, 1))
    play.arrive(request("a"))
    play.prefilled("a", 0.5)
    assert play.failed("a", Leg.PREFILL) == []
    assert play.scheduler.requests[A].state is State.TRANSFERRING


def test_a_repeated_event_changes_nothing() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a"))
    play.prefilled("a", 0.5)
    assert play.prefilled("a") == []
    play.first_token("a", 0.1)
    assert play.first_token("a", 0.1) == []
    assert only(RecordObservation, play.finished("a")).observation.ttft_s == pytest.approx(0.6)
    assert play.feed(RequestFinished(A, 1, 10)) == []


def test_when_nobody_can_decode_any_more_the_prefill_is_void_and_the_request_waits() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a"))
    play.unreachable("r1-d1")
    ended = play.prefilled("a", 0.5)
    assert kinds(ended) == ["Cancel"]
    assert only(Cancel, ended).attempt == 1
    assert play.scheduler.requests[A].state is State.HELD
    again = only(Dispatch, play.reported("r1-d1", 0.5))
    assert (again.attempt, again.leg) == (2, Leg.PREFILL)


def test_a_fleet_that_fails_for_a_moment_refuses_nobody() -> None:
    """An endpoint that answered a heartbeat ago is likely to answer again: who arrives meanwhile waits for that."""
    play = Play(racks(1, 1, 1))
    for one in ("r1-p1", "r1-d1"):
        play.unreachable(one)
    assert play.arrive(request("a"), 0.1) == []
    play.reported("r1-p1", 0.1)
    assert only(Dispatch, play.reported("r1-d1")).request_id == "a"


def test_a_report_from_before_a_failure_revives_nobody() -> None:
    play = Play(racks(1, 1, 1))
    before = play.now
    play.unreachable("r1-p1", 1.0)
    play.feed(EndpointReported(report(EndpointId("r1-p1"), before + 0.5)))
    assert play.arrive(request("a")) == []
    assert only(Dispatch, play.reported("r1-p1", 0.1)).request_id == "a"


@pytest.mark.mission("B14")
def test_the_blocks_of_a_failed_attempt_are_expected_no_more() -> None:
    play = Play(racks(1, 2, 1))
    prompt = tokens(4096, 5)
    first = play.scheduler.state.slot(only(Dispatch, play.arrive(request("a", prompt))).endpoint)
    assert first is not None
    index = play.scheduler.state.index
    asked = request("other", prompt).block_hashes
    assert index.match(asked, 3).expected[first] == 256
    play.failed("a", Leg.PREFILL)
    assert index.match(asked, 3).expected[first] == 0
