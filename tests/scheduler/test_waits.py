"""A request that was held can be told for what, behind whom, and for how long."""

import pytest

from tests.builders import limited, racks, request
from tests.scheduler.play import Play, every, only
from vicinal.domain.decision import Observation
from vicinal.domain.effects import Answer, Dispatch, RecordObservation
from vicinal.domain.outcome import Ending
from vicinal.domain.passed_by import PassedBy
from vicinal.domain.request import BATCH

ONE_SEQUENCE = racks(1, 1, 1, sequences_max=1)


def full() -> Play:
    """A fleet for one sequence, which `first` has."""
    play = Play(ONE_SEQUENCE)
    play.arrive(request("first"))
    play.prefilled("first", 0.5)
    play.first_token("first", 0.1)
    return play


def served(play: Play, name: str) -> Observation:
    """The rest of a request's life, once it is dispatched."""
    play.prefilled(name, 0.5)
    play.first_token(name, 0.1)
    return only(RecordObservation, play.finished(name, 1.0)).observation


@pytest.mark.mission("B5")
def test_it_says_who_went_before_and_what_it_waited_for() -> None:
    play = full()
    play.arrive(request("b", service=BATCH, tenant="acme"), 1.0)
    for name, tenant, service in (
        ("i1", "acme", None),
        ("i2", "other", None),
        ("b2", "other", BATCH),
    ):
        play.arrive(request(name, tenant=tenant, **({} if service is None else {"service": service})), 0.1)
    order, current = [], "first"
    while True:
        went = [each.request_id for each in every(Dispatch, play.finished(current, 1.0))]
        if not went:
            break
        (current,) = went
        order.append(current)
        if current == "b":
            break
        play.prefilled(current, 0.5)
        play.first_token(current, 0.1)
    assert order == ["i1", "i2", "b"]
    seen = served(play, "b")
    assert (seen.tenant_id, seen.band, seen.lane) == ("acme", "batch", "short")
    assert seen.passed_by == PassedBy(higher=2)
    assert seen.held_for == "one that ends (r1-d1 runs 1 of 1 sequences)"
    assert seen.held_s == pytest.approx(0.3 + 1.0 + 1.6 + 1.6)
    assert seen.prompt_tokens == 4096


def test_who_waits_for_a_queue_is_told_whose_and_how_short_it_has_to_be() -> None:
    play = Play(racks(1, 2, 1), settings=limited(0.5))
    names = [f"r{number}" for number in range(40)]
    for name in names:
        play.arrive(request(name, 8192))
    held = [name for name in names if name in play.scheduler.turns.flow]
    assert held, "forty long prompts at once are more than half a second of work for two engines"
    under_way = next(iter(play.scheduler.state.ledger.prefills))
    went = [each.request_id for each in every(Dispatch, play.prefilled(under_way, 0.5)) if each.request_id in held]
    assert went[:1] == held[:1]
    seen = only(RecordObservation, play.gone(held[-1])).observation
    assert seen.held_for.startswith("r1-p")
    assert seen.held_for.endswith(" to fall below 0.5 s of queued prefill")
    assert seen.passed_by is not None
    assert seen.passed_by.own == len(went), "all are of one tenant and band"
    assert seen.ending == Ending.CANCELLED


@pytest.mark.mission("B7")
def test_who_waited_too_long_is_told_for_how_long_and_when_to_come_back() -> None:
    play = full()
    play.arrive(request("late"), 1.0)
    effects = play.alarm()
    outcome = only(Answer, effects).outcome
    assert outcome.ending is Ending.WAITED_TOO_LONG
    assert "within 30.0 s" in outcome.reason
    assert outcome.retry_after_s is not None
    assert outcome.retry_after_s >= 1.0
    seen = only(RecordObservation, effects).observation
    assert seen.held_s == pytest.approx(30.0)
    assert seen.passed_by == PassedBy()


def test_who_was_never_held_has_nothing_to_tell() -> None:
    play = full()
    seen = only(RecordObservation, play.finished("first", 1.0)).observation
    assert (seen.band, seen.lane, seen.held_for, seen.passed_by) == ("interactive", "short", "", None)
