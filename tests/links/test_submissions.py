"""A relay's requests while cores come and go: events and effects in, events and effects out."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.builders import request
from vicinal.domain.effects import Answer, Cancel, Dispatch
from vicinal.domain.events import ClientGone, FirstToken, LegFailed, PrefillDone, RequestArrived, RequestFinished
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.domain.request import Request
from vicinal.gateway.links.submissions import Submissions

PLAN = Plan(EndpointId("p"), EndpointId("d"), Action.HIT, 0, 0, 0)
A = RequestId("a")


class Rig:
    """Submissions between a scripted relay (`post`) and scripted cores (`heard`)."""

    def __init__(self, waiting_max: int = 3) -> None:
        self.now = 0.0
        self.performed: list[Any] = []
        self.sent: list[tuple[Any, int]] = []
        self.renamed: dict[RequestId, Request | None] = {}
        self.submissions = Submissions(
            self.performed.append,
            self.renamed.get,
            lambda: self.now,
            wait_s=10.0,
            waiting_max=waiting_max,
            chance=lambda: 0.25,
        )

    def core(self) -> None:
        self.submissions.core_came(lambda event, number: self.sent.append((event, number)))

    def arrive(self, name: str = "a") -> None:
        self.submissions.post(RequestArrived(request(name)))

    def number(self, name: str = "a") -> int:
        return [n for e, n in self.sent if isinstance(e, RequestArrived) and e.request.id == name][-1]

    def dispatch(self, *legs: Leg, attempt: int = 1, name: str = "a") -> None:
        for leg in legs:
            effect = Dispatch(RequestId(name), attempt, leg, EndpointId("p"), PLAN)
            self.submissions.heard(self.number(name), effect)

    def took(self) -> tuple[list[Any], list[Any]]:
        """What was performed and sent since the last call."""
        performed, sent = self.performed[:], [event for event, _ in self.sent]
        self.performed.clear()
        self.fresh = self.sent[:]
        self.sent[:] = [(e, n) for e, n in self.sent if isinstance(e, RequestArrived)]
        return performed, sent


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.core()
    return rig


def arrivals(sent: Sequence[Any]) -> int:
    return sum(isinstance(event, RequestArrived) for event in sent)


def test_with_a_core_everything_goes_through_as_it_is(rig: Rig) -> None:
    rig.arrive()
    rig.dispatch(Leg.PREFILL)
    events = [PrefillDone(A, 1, 3), FirstToken(A, 1), RequestFinished(A, 1, 5)]
    rig.submissions.post(events[0])
    rig.dispatch(Leg.DECODE)
    for event in events[1:]:
        rig.submissions.post(event)
    assert [event for event, _ in rig.sent][1:] == events
    assert [effect.leg for effect in rig.performed] == [Leg.PREFILL, Leg.DECODE]
    rig.submissions.core_went()
    rig.core()
    assert arrivals([event for event, _ in rig.sent]) == 1, "it is over"


def test_new_requests_wait_for_a_core_in_order_and_are_refused_when_it_does_not_come() -> None:
    rig = Rig()
    for name in "abcd":
        rig.arrive(name)
    assert rig.submissions.waiting == 3
    (refused,) = rig.performed
    assert (refused.request_id, refused.outcome.ending) == ("d", Ending.NO_CORE)
    assert refused.outcome.retry_after_s == 12.5, "once to twice what it would have waited"
    rig.submissions.post(ClientGone(RequestId("b")))
    rig.now = 5.0
    rig.submissions.expire()
    assert rig.submissions.waiting == 2
    rig.core()
    assert [event.request.id for event, _ in rig.sent] == ["a", "c"], "who left is not told of"
    rig.submissions.core_went()
    assert rig.submissions.waiting == 2, "what had no decision yet waits again"
    rig.now = 14.9
    rig.submissions.expire()
    assert rig.submissions.waiting == 2
    rig.now = 15.0
    rig.submissions.expire()
    assert [effect.request_id for effect in rig.performed] == ["d", "a", "c"]
    assert rig.submissions.counts == {"waited": 5, "submitted_again": 2, "refused": 3}


@pytest.mark.parametrize("leg", [Leg.WHOLE, Leg.DECODE])
@pytest.mark.parametrize("back", [False, True], ids=["away", "another"])
def test_a_stream_goes_on_without_its_core(rig: Rig, leg: Leg, back: bool) -> None:
    rig.arrive()
    rig.dispatch(leg)
    rig.took()
    rig.submissions.core_went()
    if back:
        rig.core()
    rig.submissions.post(FirstToken(A, 1))
    rig.submissions.post(RequestFinished(A, 1, 9))
    assert rig.took()[0] == []
    assert [event for event, _ in rig.fresh if not isinstance(event, RequestArrived)] == []
    rig.submissions.core_went()
    rig.core()
    assert len(rig.sent) == 1, "only the first submission was ever made"


def test_a_leg_that_fails_before_the_first_byte_goes_to_the_next_core_and_attempts_count_on(rig: Rig) -> None:
    rig.arrive()
    rig.dispatch(Leg.WHOLE)
    rig.submissions.post(LegFailed(A, 1, Leg.WHOLE, "reset"))
    rig.dispatch(Leg.WHOLE, attempt=2)
    rig.submissions.core_went()
    rig.submissions.post(LegFailed(A, 2, Leg.WHOLE, "reset"))
    assert rig.submissions.waiting == 1
    rig.core()
    rig.dispatch(Leg.WHOLE, attempt=1)
    assert rig.performed[-1].attempt == 3, "an engine and the exchange have seen 1 and 2"
    rig.submissions.heard(rig.number(), Cancel(A, 1))
    assert rig.performed[-1] == Cancel(A, 3)
    rig.dispatch(Leg.WHOLE, attempt=2)
    assert rig.performed[-1].attempt == 4
    before = len(rig.sent)
    rig.submissions.post(LegFailed(A, 3, Leg.WHOLE, "late"))
    assert len(rig.sent) == before
    rig.submissions.post(FirstToken(A, 4))
    assert rig.sent[-1] == (FirstToken(A, 2), rig.number()), "the core has its own count"


def test_a_leg_that_fails_after_the_first_byte_ends_the_stream(rig: Rig) -> None:
    rig.arrive()
    rig.dispatch(Leg.WHOLE)
    rig.submissions.core_went()
    rig.submissions.post(FirstToken(A, 1))
    rig.submissions.post(LegFailed(A, 1, Leg.WHOLE, "reset", started=True))
    assert rig.performed[-1].outcome.ending is Ending.STREAM_BROKEN
    assert rig.submissions.waiting == 0


def test_a_failure_whose_answer_died_with_the_core_still_ends_the_stream(rig: Rig) -> None:
    rig.arrive()
    rig.dispatch(Leg.WHOLE)
    rig.submissions.post(FirstToken(A, 1))
    rig.submissions.post(LegFailed(A, 1, Leg.WHOLE, "reset", started=True))
    rig.submissions.core_went()
    assert rig.performed[-1].outcome.ending is Ending.STREAM_BROKEN


def test_a_failure_whose_next_plan_died_with_the_core_goes_again(rig: Rig) -> None:
    rig.arrive()
    rig.dispatch(Leg.WHOLE)
    rig.submissions.post(LegFailed(A, 1, Leg.WHOLE, "reset"))
    rig.submissions.core_went()
    assert rig.submissions.waiting == 1


def test_the_clients_own_fault_ends_it_without_a_core(rig: Rig) -> None:
    rig.arrive()
    rig.dispatch(Leg.WHOLE)
    rig.submissions.core_went()
    rig.submissions.post(LegFailed(A, 1, Leg.WHOLE, "HTTP 400", client_fault=True))
    rig.core()
    assert arrivals([event for event, _ in rig.sent]) == 1


@pytest.mark.parametrize("back", [False, True], ids=["away", "another"])
def test_a_prefill_that_ends_without_its_core_is_submitted_again(rig: Rig, back: bool) -> None:
    rig.arrive()
    rig.dispatch(Leg.PREFILL)
    rig.submissions.core_went()
    if back:
        rig.core()
    assert rig.submissions.waiting == 0, "it is under way"
    rig.submissions.post(PrefillDone(A, 1, 0))
    if not back:
        rig.core()
    assert arrivals([event for event, _ in rig.sent]) == 2


def test_legs_that_left_together_go_on_together(rig: Rig) -> None:
    rig.arrive()
    rig.dispatch(Leg.PREFILL, Leg.DECODE)
    rig.submissions.core_went()
    rig.submissions.post(PrefillDone(A, 1, 0))
    assert rig.submissions.waiting == 0
    rig.submissions.post(FirstToken(A, 1))
    rig.submissions.post(RequestFinished(A, 1, 4))
    assert rig.performed[2:] == []


def test_a_prefill_that_fails_beside_its_decode_leg_takes_it_along_unless_tokens_flow(rig: Rig) -> None:
    for name in "ab":
        rig.arrive(name)
        rig.dispatch(Leg.PREFILL, Leg.DECODE, name=name)
    rig.submissions.core_went()
    rig.submissions.post(FirstToken(RequestId("b"), 1))
    rig.performed.clear()
    for name in "ab":
        rig.submissions.post(LegFailed(RequestId(name), 1, Leg.PREFILL, "reset"))
    assert rig.performed == [Cancel(A, 1)]
    assert rig.submissions.waiting == 1


def test_a_name_that_another_relay_has_is_changed(rig: Rig) -> None:
    rig.arrive()
    rig.renamed[A] = request("fresh")
    rig.submissions.taken(rig.number())
    assert rig.sent[-1][0].request.id == "fresh"
    rig.dispatch(Leg.WHOLE, name="fresh")
    assert rig.performed[-1].request_id == "fresh"
    rig.submissions.taken(999)
    rig.renamed[RequestId("fresh")] = None
    rig.submissions.taken(rig.number("fresh"))
    assert len(rig.sent) == 2


def test_effects_for_an_older_submission_of_the_same_name_are_void(rig: Rig) -> None:
    rig.arrive()
    old = rig.number()
    rig.submissions.post(ClientGone(A))
    rig.arrive()
    rig.submissions.heard(old, Answer(A, Outcome(Ending.NO_ENDPOINT)))
    assert rig.performed == []
    rig.dispatch(Leg.WHOLE)
    assert len(rig.performed) == 1


class Comings(RuleBasedStateMachine):
    """Cores come and go at any moment; a request has at most one leg of a kind, and ends once at most.

    The model is the relay: what runs is known from the effects that it was given, and nothing is ever left without
    either something under way, a decision that is owed, or an end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(waiting_max=100)
        self.rig.submissions._perform = self.perform
        self.legs: dict[RequestId, dict[Leg, int]] = {}
        self.started: set[RequestId] = set()
        self.over: set[RequestId] = set()
        self.owed: dict[RequestId, tuple[int, int]] = {}
        self.has_core = False
        self.count = 0

    def perform(self, effect: Any) -> None:
        rid = effect.request_id
        assert rid in self.legs, "an effect for a request that is over"
        if isinstance(effect, Dispatch):
            if effect.leg is not Leg.DECODE or effect.attempt not in self.legs[rid].values():
                self.legs[rid].clear()
            assert rid not in self.started, "a stream is never begun twice"
            self.legs[rid][effect.leg] = effect.attempt
        elif isinstance(effect, Cancel):
            assert rid not in self.started
            self.legs[rid].clear()
        else:
            self.end(rid)

    def end(self, rid: RequestId) -> None:
        del self.legs[rid]
        self.owed.pop(rid, None)
        assert rid not in self.over
        self.over.add(rid)

    def post(self, event: Any) -> None:
        before = len(self.rig.sent)
        self.rig.submissions.post(event)
        self.note(before)

    def note(self, before: int) -> None:
        for event, number in self.rig.sent[before:]:
            if isinstance(event, RequestArrived):
                self.owed[event.request.id] = (number, 1)
            elif isinstance(event, LegFailed) and event.request_id in self.legs:
                self.owed[event.request_id] = (number, event.attempt + 1)
            elif isinstance(event, PrefillDone):
                self.owed[event.request_id] = (number, -event.attempt)

    @rule()
    def arrives(self) -> None:
        self.count += 1
        rid = RequestId(f"q{self.count}")
        self.legs[rid] = {}
        self.post(RequestArrived(request(rid)))

    @rule()
    def core_comes_or_goes(self) -> None:
        before = len(self.rig.sent)
        if self.has_core:
            self.owed.clear()
            self.rig.submissions.core_went()
        else:
            self.rig.core()
        self.has_core = not self.has_core
        self.note(before)

    @precondition(lambda self: self.owed)
    @rule(data=st.data(), kind=st.sampled_from(["whole", "split", "both", "refuse"]))
    def core_decides(self, data: st.DataObject, kind: str) -> None:
        rid = data.draw(st.sampled_from(sorted(self.owed)))
        number, attempt = self.owed.pop(rid)
        if kind == "refuse" or rid in self.started:
            self.rig.submissions.heard(number, Answer(rid, Outcome(Ending.ENGINE_FAILED)))
            return
        legs = {"whole": [Leg.WHOLE], "split": [Leg.PREFILL], "both": [Leg.PREFILL, Leg.DECODE]}[kind]
        if attempt < 0:
            legs, attempt = [Leg.DECODE], -attempt
        for leg in legs:
            self.rig.submissions.heard(number, Dispatch(rid, attempt, leg, EndpointId("p"), PLAN))

    @precondition(lambda self: any(self.legs.values()))
    @rule(data=st.data(), what=st.sampled_from(["ends", "fails", "fault"]))
    def engine_does(self, data: st.DataObject, what: str) -> None:
        rid = data.draw(st.sampled_from(sorted(rid for rid, legs in self.legs.items() if legs)))
        leg = data.draw(st.sampled_from(sorted(self.legs[rid])))
        attempt = self.legs[rid][leg]
        if what == "fails":
            del self.legs[rid][leg]
            self.post(LegFailed(rid, attempt, leg, "reset", started=rid in self.started and leg is not Leg.PREFILL))
        elif what == "fault":
            self.end(rid)
            self.post(LegFailed(rid, attempt, leg, "HTTP 400", client_fault=True))
        elif leg is Leg.PREFILL:
            del self.legs[rid][leg]
            beside = Leg.DECODE in self.legs[rid]
            self.post(PrefillDone(rid, attempt, 0))
            if beside:
                self.owed.pop(rid, None)
        elif rid in self.started:
            self.end(rid)
            self.post(RequestFinished(rid, attempt, 3))
        else:
            self.started.add(rid)
            self.post(FirstToken(rid, attempt))

    @precondition(lambda self: self.legs)
    @rule(data=st.data())
    def client_leaves(self, data: st.DataObject) -> None:
        rid = data.draw(st.sampled_from(sorted(self.legs)))
        self.end(rid)
        self.post(ClientGone(rid))

    @invariant()
    def nothing_is_left_behind(self) -> None:
        for rid, legs in self.legs.items():
            waits = rid in self.rig.submissions._waiting
            assert legs or rid in self.owed or waits, f"{rid} has no leg, no decision owed, and does not wait"
            assert not waits or not self.has_core
        assert set(self.rig.submissions._open) == set(self.legs)


Comings.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestComings = Comings.TestCase
