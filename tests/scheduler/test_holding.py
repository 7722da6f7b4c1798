"""A full fleet holds requests: in order, bounded in number, bounded in time."""

import pytest

from tests.builders import racks, request
from tests.scheduler.play import Play, every, idle, kinds, only
from vicinal.cluster.freshness import FreshnessRule
from vicinal.domain.effects import Answer, Dispatch, RecordObservation
from vicinal.domain.outcome import Ending
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.states import State

ONE_SEQUENCE = racks(1, 1, 1, sequences_max=1)


def full(**settings: float) -> Play:
    """A fleet for one sequence, which `first` has."""
    play = Play(ONE_SEQUENCE, settings=SchedulerSettings(**settings))  # type: ignore[arg-type]
    play.arrive(request("first"))
    play.prefilled("first", 0.5)
    play.first_token("first", 0.1)
    return play


def placed(effects: list) -> list[str]:
    return [dispatch.request_id for dispatch in every(Dispatch, effects)]


@pytest.mark.mission("B12")
def test_a_request_waits_without_a_word_and_goes_when_room_frees() -> None:
    play = full()
    assert play.arrive(request("second"), 1.0) == []
    assert play.scheduler.requests["second"].state is State.HELD
    assert play.scheduler.state.ledger.prefills == {}, "what is held reserves nothing"
    effects = play.finished("first", 2.0)
    assert kinds(effects) == ["RecordObservation", "Record", "Dispatch"]
    assert placed(effects) == ["second"]
    play.prefilled("second", 0.5)
    play.first_token("second", 0.1)
    seen = only(RecordObservation, play.finished("second", 1.0)).observation
    assert seen.held_s == pytest.approx(2.0)
    assert seen.ttft_s == pytest.approx(2.6)
    assert idle(play)


def test_held_requests_go_in_order_and_nobody_overtakes() -> None:
    play = full()
    for name in ("b", "c", "d"):
        assert play.arrive(request(name), 0.1) == []
    served = []
    current = "first"
    for _ in range(3):
        (current,) = placed(play.finished(current, 1.0))
        served.append(current)
        assert play.arrive(request(f"late-{current}")) == [], "who comes while others wait, waits behind them"
        play.prefilled(current, 0.5)
        play.first_token(current, 0.1)
    assert served == ["b", "c", "d"]


def test_room_for_several_is_given_to_several() -> None:
    play = Play(racks(1, 1, 1, sequences_max=2))
    for name in ("a", "b"):
        play.arrive(request(name))
    for name in ("c", "d"):
        assert play.arrive(request(name)) == []
    effects = play.gone("a")
    assert placed(effects) == ["c"]
    play.fleet(racks(1, 1, 2, sequences_max=2))
    assert placed(play.reported("r1-d2")) == ["d"]


def test_an_alarm_ends_the_oldest_wait_exactly_when_it_is_due() -> None:
    play = full(hold_s_max=10.0)
    assert play.scheduler.next_alarm() is None
    play.arrive(request("b"), 1.0)
    since_s = play.now
    play.arrive(request("c"), 4.0)
    assert play.scheduler.next_alarm() == since_s + 10.0
    effects = play.alarm()
    answer = only(Answer, effects)
    assert (answer.request_id, answer.outcome.ending) == ("b", Ending.WAITED_TOO_LONG)
    assert answer.outcome.ending.http_status == 503
    assert 1.0 <= (answer.outcome.retry_after_s or 0.0) < 5.0
    assert only(RecordObservation, effects).observation.held_s == 10.0
    assert play.scheduler.next_alarm() == since_s + 14.0
    assert only(Answer, play.alarm()).request_id == "c"
    assert play.scheduler.next_alarm() is None


def test_whoever_waited_for_an_endpoint_that_does_not_answer_is_not_told_that_all_were_full() -> None:
    play = Play(ONE_SEQUENCE, settings=SchedulerSettings(hold_s_max=10.0))
    play.unreachable("r1-d1")
    assert play.arrive(request("a")) == []
    outcome = only(Answer, play.alarm()).outcome
    assert outcome.reason == "no endpoint that answers had room within 10.0 s"


def test_an_alarm_before_time_ends_nothing() -> None:
    from vicinal.domain.events import AlarmRang

    play = full(hold_s_max=10.0)
    play.arrive(request("b"))
    assert play.feed(AlarmRang(), 9.99) == []
    assert play.scheduler.requests["b"].state is State.HELD


def test_the_queue_is_bounded() -> None:
    play = full(held_max=2)
    for name in ("b", "c"):
        assert play.arrive(request(name)) == []
    refused = play.arrive(request("d"))
    outcome = only(Answer, refused).outcome
    assert (outcome.ending, outcome.ending.http_status) == (Ending.QUEUE_FULL, 429)
    assert outcome.retry_after_s is not None
    assert only(RecordObservation, refused).observation.ending == Ending.QUEUE_FULL
    assert placed(play.finished("first", 1.0)) == ["b"]


def test_refused_clients_are_told_to_come_back_at_different_times() -> None:
    play = full(held_max=0, retry_after_s=4.0)
    times = {only(Answer, play.arrive(request(f"r{n}"))).outcome.retry_after_s for n in range(20)}
    assert len(times) == 20
    assert all(4.0 <= (time or 0.0) < 8.0 for time in times)


def test_whom_nobody_can_serve_any_more_is_told_so() -> None:
    """Waiting cures a full endpoint, and one that fails for a moment, not one that has been silent for too long."""
    play = Play(ONE_SEQUENCE, freshness=FreshnessRule(heartbeat_s=1.0))
    play.arrive(request("first"))
    play.arrive(request("b"))
    assert kinds(play.unreachable("r1-d1")) == ["Warn"]
    assert play.scheduler.requests["b"].state is State.HELD
    effects = play.unreachable("r1-d1", 10.1)
    assert only(Answer, effects).outcome.ending is Ending.NO_ENDPOINT
    assert "b" not in play.scheduler.requests


@pytest.mark.mission("B3")
def test_memory_too_is_waited_for() -> None:
    """Two requests of 700 blocks do not fit 1,000."""
    play = Play(racks(1, 1, 1, kv_blocks=1_000))
    big = {"prompt": 11_000, "output_tokens": 200}
    play.arrive(request("a", **big))
    play.prefilled("a", 0.5)
    play.first_token("a", 0.1)
    assert play.arrive(request("b", **big)) == []
    assert placed(play.finished("a", 1.0)) == ["b"]


def test_an_unsplittable_request_waits_too() -> None:
    play = full()
    assert play.arrive(request("n2", splittable=False)) == []
    assert placed(play.finished("first", 1.0)) == ["n2"]


def test_a_request_that_only_just_fits_an_empty_endpoint_does_not_wait_for_ever() -> None:
    """The margin is for strangers' blocks; nobody's end would make more room than an empty endpoint has."""
    play = Play(racks(1, 1, 1, kv_blocks=1_000))
    assert placed(play.arrive(request("whole", 15_800, output_tokens=200))) == ["whole"]
