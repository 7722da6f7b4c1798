"""Copies of prefixes: requests without a client, from whoever holds the prefix to where it is wanted."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.builders import racks, request, tokens
from tests.scheduler.play import Play, every, idle, only
from vicinal.domain.effects import Answer, Dispatch, Record, RecordObservation
from vicinal.domain.endpoint import HandOff
from vicinal.domain.ids import EndpointId
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Action, Leg
from vicinal.domain.request import Request
from vicinal.domain.verdict import Rule

PREFIX = tokens(4096, 1)


def copy(name: str, target: str, prompt: object = PREFIX) -> Request:
    return request(name, prompt, output_tokens=1, copy_to=EndpointId(target))  # type: ignore[arg-type]


def leases(play: Play) -> Counter[str]:
    """Blocks that are being read, by endpoint."""
    state = play.scheduler.state
    found: Counter[str] = Counter()
    for group in state.index.groups():
        for copy in group.copies:
            found[state.fleet.endpoints[copy.slot].id] += group.blocks if copy.readers else 0
    return +found


@pytest.mark.mission("C5", "B9", "B14", "B16")
@pytest.mark.parametrize("target", ["r1-p2", "r2-d1", "r1-d1"])
def test_a_holder_prefills_and_the_target_pulls_whatever_their_roles(target: str) -> None:
    play = Play()
    play.stored("r1-p1", PREFIX)
    effects = play.arrive(copy("c", target))
    sent, decision = only(Dispatch, effects), only(Record, effects).decision
    assert (sent.leg, sent.endpoint, sent.plan.decode) == (Leg.PREFILL, "r1-p1", target)
    assert decision.chosen.plan.action is Action.MIGRATE
    assert decision.chosen.plan.cached_tokens == 4080, "the holder computes the last block again, as every engine does"
    assert leases(play) == {"r1-p1": 256}, "what is read is not to be given up"
    sent = only(Dispatch, play.prefilled("c", 0.1, cached=4080))
    assert (sent.leg, sent.endpoint, sent.plan.moved_tokens) == (Leg.DECODE, target, 4096)
    seen = only(RecordObservation, play.finished("c", 0.2, tokens=1)).observation
    assert seen.ending == Ending.DONE
    assert idle(play)
    assert not leases(play)


@pytest.mark.mission("C5")
def test_the_nearest_of_several_holders_is_taken() -> None:
    play = Play()
    for holder in ("r1-p1", "r2-p1", "r2-d2"):
        play.stored(holder, PREFIX)
    assert only(Dispatch, play.arrive(copy("c", "r1-d1"))).endpoint == "r1-p1"


def test_a_source_that_leaves_takes_its_lease_along() -> None:
    play = Play()
    play.stored("r1-p1", PREFIX)
    play.arrive(copy("c", "r1-p2"))
    play.fleet([endpoint for endpoint in racks() if endpoint.id != "r1-p1"])
    assert not leases(play)
    play.gone("c")
    assert idle(play)


def test_a_holder_that_hands_nothing_over_has_failed() -> None:
    play = Play()
    play.stored("r1-p1", PREFIX)
    play.arrive(copy("c", "r1-p2"))
    effects = play.prefilled("c", 0.1, handed_off=False)
    assert only(RecordObservation, effects).observation.ending == Ending.ENGINE_FAILED
    assert idle(play)
    assert not leases(play)


def test_only_the_target_may_take_it_when_the_prefill_is_done() -> None:
    play = Play()
    play.stored("r1-p1", PREFIX)
    play.arrive(copy("c", "r1-p2"))
    play.unreachable("r1-p2", 0.1)
    effects = play.prefilled("c", 0.1)
    assert not every(Dispatch, effects)
    answer = only(Answer, effects).outcome
    assert answer.ending is Ending.NO_ENDPOINT
    assert "r1-p2, which does not answer" in answer.reason
    assert idle(play)


@pytest.mark.parametrize(
    ("target", "prompt", "ending", "words"),
    [
        ("r9-p1", PREFIX, Ending.REJECTED, "no endpoint is named r9-p1"),
        ("r1-p1", PREFIX, Ending.REJECTED, "holds all 256 blocks of the prefix already"),
        ("r1-p2", tokens(4096, 2), Ending.NO_ENDPOINT, "no other endpoint that answers holds all 256 blocks"),
        ("r1-p2", tokens(9, 2), Ending.REJECTED, "no whole block"),
    ],
)
def test_what_cannot_be_copied_is_refused_at_once(target: str, prompt: object, ending: Ending, words: str) -> None:
    play = Play()
    play.stored("r1-p1", PREFIX)
    outcome = only(Answer, play.arrive(copy("c", target, prompt))).outcome
    assert outcome.ending is ending
    assert words in outcome.reason
    assert idle(play)


def test_an_endpoint_that_hands_nothing_off_is_no_end_of_a_copy() -> None:
    play = Play([*racks(count=1, hands_off=False), *racks(count=2)[4:]])
    play.stored("r1-p1", PREFIX)
    assert only(Answer, play.arrive(copy("c", "r2-p1"))).outcome.ending is Ending.NO_ENDPOINT
    play.stored("r2-p1", PREFIX)
    assert "takes no KV from others" in only(Answer, play.arrive(copy("d", "r1-p1"))).outcome.reason
    assert only(Dispatch, play.arrive(copy("e", "r2-p2"))).endpoint == "r2-p1"


def test_a_copy_is_never_held_and_leaves_policies_alone() -> None:
    """Round robin would go on to its next endpoint."""
    turns = []
    for copies in (False, True):
        play = Play(policy_name="round_robin")
        play.stored("r1-p1", PREFIX)
        sent = []
        for n in range(4):
            sent.append(only(Dispatch, play.arrive(request(f"q{n}"))).endpoint)
            if copies:
                assert only(Dispatch, play.arrive(copy(f"c{n}", "r2-p2"))).endpoint == "r1-p1"
        turns.append(sent)
    assert turns[0] == turns[1]


def test_a_copy_takes_no_room_that_requests_wait_for() -> None:
    play = Play(racks(sequences_max=1))
    play.stored("r1-p1", PREFIX)
    for n in range(5):
        play.arrive(request(f"q{n}"))
    assert len(play.scheduler.turns.flow) == 1
    outcome = only(Answer, play.arrive(copy("c", "r1-p2"))).outcome
    assert outcome.ending is Ending.NO_ENDPOINT
    assert "1 requests wait for room" in outcome.reason


def test_the_others_are_told_why_they_are_left_out() -> None:
    play = Play()
    play.stored("r1-p1", PREFIX)
    verdicts = only(Record, play.arrive(copy("c", "r1-p2"))).decision.verdicts
    assert {verdict.endpoint for verdict in verdicts if verdict.rule is Rule.UNINVOLVED} == {
        endpoint.id for endpoint in racks()
    } - {"r1-p1", "r1-p2"}


def test_the_next_request_of_that_prefix_counts_on_the_copy_from_its_decision_on() -> None:
    play = Play()
    play.stored("r1-p1", PREFIX)
    play.arrive(copy("c", "r2-p1"))
    play.prefilled("c", 0.1)
    slot = play.scheduler.state.slot(EndpointId("r2-p1"))
    assert slot is not None
    match = play.scheduler.state.index.match(copy("x", "r2-p1").block_hashes, len(play.scheduler.state.fleet))
    assert (match.expected[slot], match.ready[slot]) == (256, 0)


def test_a_hand_off_that_is_not_known_to_leave_a_copy_makes_none() -> None:
    play = Play(racks(hand_off=HandOff.BOOTSTRAP))
    play.stored("r1-p1", PREFIX)
    refused = only(Answer, play.arrive(copy("c", "r2-p1"))).outcome
    assert (refused.ending, "by bootstrap" in refused.reason) == (Ending.REJECTED, True)
    other = Play([replace(one, hand_off=HandOff.MOONCAKE) if one.id.startswith("r2") else one for one in racks()])
    other.stored("r2-p1", PREFIX)
    refused = only(Answer, other.arrive(copy("c", "r1-p1"))).outcome
    assert "no other endpoint" in refused.reason, "its only holder makes none"
    assert idle(play)
    assert idle(other)
