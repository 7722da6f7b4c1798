"""Hand-offs whose legs leave together: bound at arrival, reserved on both sides, and broken together."""

from dataclasses import replace

import numpy as np
import pytest

from tests.builders import endpoint, racks, request
from tests.scheduler.play import Play, every, idle, kinds, only
from vicinal.domain.effects import Answer, Cancel, Dispatch, Record, RecordObservation, Warn
from vicinal.domain.endpoint import Endpoint, HandOff, Role
from vicinal.domain.events import AlarmRang
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Leg
from vicinal.domain.verdict import Rule
from vicinal.policies.registry import POLICIES
from vicinal.scheduler.blame import PAIRS

BOOTSTRAP = racks(hand_off=HandOff.BOOTSTRAP)
NEAR_AND_FAR = [
    endpoint("near", Role.PREFILL, leaf="r1", hand_off=HandOff.BOOTSTRAP),
    endpoint("far", Role.PREFILL, leaf="r2", hand_off=HandOff.BOOTSTRAP),
    endpoint("d", Role.DECODE, leaf="r1", hand_off=HandOff.BOOTSTRAP),
]
"""The near one is always cheaper, as long as nothing runs."""


def pair(effects: list) -> tuple[str, str]:
    """The two legs that leave together."""
    prefill, decode = every(Dispatch, effects)
    assert (prefill.leg, decode.leg) == (Leg.PREFILL, Leg.DECODE)
    assert prefill.plan == decode.plan
    assert (prefill.attempt, prefill.endpoint, decode.endpoint) == (
        decode.attempt,
        prefill.plan.prefill,
        prefill.plan.decode,
    )
    return prefill.endpoint, decode.endpoint


@pytest.mark.mission("B11")
def test_both_legs_leave_at_arrival_and_are_reserved_on_both_sides() -> None:
    play = Play(BOOTSTRAP)
    arrived = play.arrive(request("a"), 1.0)
    assert kinds(arrived) == ["Record", "Dispatch", "Dispatch"]
    prefill, decode = pair(arrived)
    ledger, slot = play.scheduler.state.ledger, play.scheduler.state.slot
    assert ledger.prefills["a"].slot == slot(prefill)  # type: ignore[index]
    assert ledger.decodes["a"].slot == slot(decode)  # type: ignore[index]
    assert set(ledger.slots_held("a")) == {slot(prefill), slot(decode)}  # type: ignore[arg-type]
    assert ledger.transfers["a"].kv_bytes == 4096 * 327_680  # type: ignore[index]
    assert not ledger.pencilled

    assert play.prefilled("a", 0.5, cached=64) == [], "decode is bound already"
    assert not ledger.prefills
    assert play.first_token("a", 0.25) == []
    assert not ledger.transfers
    seen = only(RecordObservation, play.finished("a", 2.0, tokens=101)).observation
    assert (seen.ending, seen.attempts, seen.cached_tokens, seen.prefill_s, seen.ttft_s) == (
        Ending.DONE,
        1,
        64,
        0.5,
        0.75,
    )
    assert idle(play)


def test_the_prefill_leg_may_answer_after_the_first_token_or_never() -> None:
    play = Play(BOOTSTRAP)
    play.arrive(request("a"))
    play.first_token("a", 0.5)
    ledger = play.scheduler.state.ledger
    assert (dict(ledger.prefills), dict(ledger.transfers)) == ({}, {}), "the first token says that both are over"
    assert play.prefilled("a", 0.1, cached=32) == []
    assert play.prefilled("a", 0.1, cached=99) == [], "once"
    seen = only(RecordObservation, play.finished("a", 1.0)).observation
    assert seen.cached_tokens == 32
    play.arrive(request("b"))
    play.finished("b", 1.0)
    assert idle(play)


def test_an_unstreamed_answer_shows_no_first_token() -> None:
    play = Play(BOOTSTRAP)
    play.arrive(request("a", streamed=False))
    play.prefilled("a", 0.1)
    play.alarm()
    assert not play.scheduler.state.ledger.transfers
    play.finished("a", 1.0)
    assert idle(play)


def test_a_prefill_that_is_the_whole_answer_ends_both() -> None:
    play = Play(racks(hand_off=HandOff.MOONCAKE))
    play.arrive(request("eos"), 1.0)
    play.prefilled("eos", 0.5, handed_off=False)
    seen = only(RecordObservation, play.finished("eos", tokens=1)).observation
    assert (seen.ending, seen.ttft_s, seen.output_tokens) == (Ending.DONE, 0.5, 1)
    assert idle(play)


@pytest.mark.mission("B11")
@pytest.mark.parametrize("leg", [Leg.PREFILL, Leg.DECODE])
@pytest.mark.parametrize("answered", [False, True])
def test_one_leg_that_fails_cancels_the_other_and_both_are_planned_anew(leg: Leg, answered: bool) -> None:
    play = Play(BOOTSTRAP)
    first = pair(play.arrive(request("a")))
    failed = play.failed("a", leg, 0.1, answered=answered)
    assert kinds(failed) == ["Warn", "Cancel", "Record", "Dispatch", "Dispatch"]
    assert only(Cancel, failed).attempt == 1
    second = pair(failed)
    assert every(Dispatch, failed)[0].attempt == 2
    assert second != first
    blamed = first[leg is Leg.DECODE]
    usable = play.scheduler.state.view(play.now).usable
    slot = play.scheduler.state.slot(blamed)  # type: ignore[arg-type]
    assert usable[slot] == answered, "an engine that said so itself is alive"
    assert (blamed in second) <= answered
    play.prefilled("a", 0.1)
    play.first_token("a", 0.1)
    play.finished("a")
    assert idle(play)


def test_events_of_the_broken_attempt_change_nothing() -> None:
    play = Play(BOOTSTRAP)
    play.arrive(request("a"))
    play.failed("a", Leg.DECODE, answered=True)
    tracked = play.scheduler.requests["a"]  # type: ignore[index]
    assert (tracked.attempt, tracked.prefilling) == (2, True)
    tracked.attempt = 1  # what the driver of the first attempt would still send
    late = play.attempt("a")
    tracked.attempt = 2
    assert late == 1
    play.gone("a")
    assert idle(play)


def test_a_prefill_leg_that_breaks_after_the_first_token_does_not_break_the_answer() -> None:
    play = Play(BOOTSTRAP)
    play.arrive(request("a"))
    play.first_token("a", 0.5)
    assert kinds(play.failed("a", Leg.PREFILL)) == ["Warn"]
    assert play.failed("a", Leg.PREFILL) == [], "it is over"
    assert only(RecordObservation, play.finished("a", 1.0)).observation.ending is Ending.DONE
    assert idle(play)


def test_a_decode_leg_that_breaks_in_the_middle_ends_the_request_and_its_other_leg() -> None:
    play = Play(BOOTSTRAP)
    play.arrive(request("a"))
    play.first_token("a", 0.5)
    broken = play.failed("a", Leg.DECODE, started=True)
    assert kinds(broken) == ["Warn", "Cancel", "Answer", "RecordObservation"]
    assert only(Answer, broken).outcome.ending is Ending.STREAM_BROKEN
    assert idle(play)


def test_a_clients_fault_is_not_tried_again() -> None:
    play = Play(BOOTSTRAP)
    play.arrive(request("a"))
    refused = play.failed("a", Leg.PREFILL, client_fault=True)
    assert only(Answer, refused).outcome.ending is Ending.REJECTED
    assert len(every(Cancel, refused)) == 1
    assert idle(play)


def test_a_failed_pair_is_avoided_by_others_too_and_tried_again_in_time() -> None:
    play = Play(NEAR_AND_FAR)
    first = pair(play.arrive(request("a")))
    play.failed("a", Leg.DECODE, 0.1, answered=True)
    play.gone("a")
    assert first == ("near", "d")
    for n in range(4):
        assert pair(play.arrive(request(f"b{n}"))) == ("far", "d")
        play.gone(f"b{n}")
    play.now += PAIRS.open_s
    play.feed(AlarmRang())
    assert pair(play.arrive(request("c"))) == first, "nothing else has changed"
    play.gone("c")
    assert idle(play)


def test_a_pair_that_fails_again_is_avoided_for_longer_and_one_that_works_is_forgotten() -> None:
    play = Play(NEAR_AND_FAR)
    blame = play.scheduler.blame
    first = pair(play.arrive(request("a")))
    play.failed("a", Leg.DECODE, answered=True)
    play.gone("a")
    assert blame.next_s() == play.now + PAIRS.open_s
    play.alarm()
    assert blame.next_s() is None
    assert pair(play.arrive(request("b"))) == first
    play.failed("b", Leg.DECODE, answered=True)
    play.gone("b")
    assert blame.next_s() == play.now + 2 * PAIRS.open_s
    play.alarm()
    assert pair(play.arrive(request("c"))) == first
    play.first_token("c")
    play.finished("c")
    assert pair(play.arrive(request("d"))) == first
    play.failed("d", Leg.DECODE, answered=True)
    assert blame.next_s() == play.now + PAIRS.open_s
    play.gone("d")


def test_the_last_pair_is_never_avoided() -> None:
    play = Play(racks(1, 1, 1, hand_off=HandOff.BOOTSTRAP))
    pair(play.arrive(request("a")))
    again = play.failed("a", Leg.DECODE, answered=True)
    pair(again)
    last = play.failed("a", Leg.DECODE, answered=True)
    pair(last)
    ended = play.failed("a", Leg.DECODE, answered=True)
    assert only(Answer, ended).outcome.ending is Ending.ENGINE_FAILED, "attempts are bounded"
    assert idle(play)


def test_an_endpoint_that_leaves_takes_its_failures_along() -> None:
    play = Play(BOOTSTRAP)
    first = pair(play.arrive(request("a")))
    play.failed("a", Leg.DECODE, answered=True)
    play.gone("a")
    play.fleet([one for one in BOOTSTRAP if one.id != first[1]])
    play.fleet(BOOTSTRAP)
    play.reported(first[1])
    assert play.scheduler.blame.next_s() is None


def mixed() -> list[Endpoint]:
    """One rack pulls, one is concurrent."""
    first, second = racks()[:4], racks()[4:]
    return [*first, *(replace(one, hand_off=HandOff.BOOTSTRAP) for one in second)]


@pytest.mark.parametrize("policy_name", POLICIES)
def test_only_endpoints_of_one_kind_are_a_pair(policy_name: str) -> None:
    play = Play(mixed(), policy_name=policy_name)
    seen = set()
    for n in range(16):
        arrived = play.arrive(request(f"a{n}", prompt=2048 + 512 * n))
        first = every(Dispatch, arrived)[0]
        plan = first.plan
        assert plan.prefill[:2] == plan.decode[:2], policy_name
        concurrent = plan.prefill.startswith("r2")
        seen.add(concurrent)
        assert len(every(Dispatch, arrived)) == 1 + concurrent
        if not concurrent:
            bound = only(Dispatch, play.prefilled(f"a{n}", 0.01))
            assert bound.endpoint.startswith("r1")
    for n in range(16):
        play.gone(f"a{n}")
    assert idle(play)


def test_a_request_waits_when_only_halves_of_different_kinds_have_room() -> None:
    fleet = mixed()
    play = Play(fleet)
    for one in fleet:
        full = one.role.decodes if one.id.startswith("r1") else one.role.prefills
        if full and one.role.decodes:
            play.reported(one.id, running=300, waiting=0)
            play.reported(one.id, running=300, waiting=0)
    for one in fleet:
        if one.id.startswith("r2") and one.role.prefills:
            play.unreachable(one.id)
    assert play.arrive(request("a")) == []
    assert play.scheduler.requests["a"].state == "held"  # type: ignore[index]
    play.gone("a")
    assert idle(play)


def test_who_has_no_partner_is_told_so() -> None:
    fleet = [
        *racks(1, 1, 1),
        endpoint("lone", Role.DECODE, hand_off=HandOff.BOOTSTRAP),
        endpoint("other", Role.DECODE, hand_off=HandOff.MOONCAKE),
    ]
    play = Play(fleet)
    decision = only(Record, play.arrive(request("a"))).decision
    assert [(v.endpoint, v.rule) for v in decision.verdicts] == [("lone", Rule.PARTNER)], "the other can serve alone"
    assert "bootstrap" in decision.verdicts[0].reason


def test_half_of_a_bootstrap_pair_serves_no_whole_request() -> None:
    play = Play(racks(1, 1, 1, hand_off=HandOff.BOOTSTRAP), local=True)
    answered = play.arrive(request("n2", splittable=False))
    assert only(Answer, answered).outcome.ending is Ending.NO_ENDPOINT
    pair(play.arrive(request("a")))
    play.gone("a")
    whole = Play([*racks(1, 1, 1, hand_off=HandOff.BOOTSTRAP), endpoint("w", Role.BOTH, hands_off=False)])
    assert only(Dispatch, whole.arrive(request("n2", splittable=False))).endpoint == "w"


def test_warnings_name_the_leg() -> None:
    play = Play(BOOTSTRAP)
    _, decode = pair(play.arrive(request("a")))
    warning = only(Warn, play.failed("a", Leg.DECODE, answered=True))
    assert (warning.kind, warning.endpoint) == ("leg_failed", decode)
    play.gone("a")


def test_concurrent_flows_count_from_the_start() -> None:
    play = Play(BOOTSTRAP)
    play.arrive(request("a"))
    assert np.count_nonzero(play.scheduler.state.ledger.link_flows) > 0
    play.gone("a")
    assert not play.scheduler.state.ledger.link_flows.any()
