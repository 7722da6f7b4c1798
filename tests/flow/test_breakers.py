"""Circuit breakers: every state against every event, one probe at a time, times that double and are bounded."""

from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vicinal.domain.ids import RequestId
from vicinal.flow.breakers import BreakerRule, Breakers, Circuit, LeftOut

RULE = BreakerRule(failures_max=3, window_s=30.0, open_s=10.0, open_s_max=60.0)
A, B, C = (RequestId(name) for name in "abc")


def opened(now: float = 0.0) -> Breakers[str]:
    breakers: Breakers[str] = Breakers(RULE)
    for _ in range(3):
        breakers.failed("x", A, "connection refused", now)
    return breakers


def half_open() -> Breakers[str]:
    breakers = opened()
    assert breakers.expire(10.0)
    return breakers


def probing() -> Breakers[str]:
    breakers = half_open()
    assert breakers.sent("x", B)
    return breakers


EVENTS = {
    "failure of the probe": lambda one: one.failed("x", B, "reset", 20.0),
    "failure of another": lambda one: one.failed("x", C, "reset", 20.0),
    "success of the probe": lambda one: one.worked("x", B),
    "success of another": lambda one: one.worked("x", C),
    "sent": lambda one: one.sent("x", C),
    "probe over": lambda one: one.over(B),
    "another over": lambda one: one.over(C),
    "time": lambda one: one.expire(20.0),
}
CLOSED, OPEN, HALF_OPEN = Circuit.CLOSED, Circuit.OPEN, Circuit.HALF_OPEN
STATES = {
    "closed": (lambda: Breakers(RULE), CLOSED, False),
    "open": (opened, OPEN, True),
    "half open": (half_open, HALF_OPEN, False),
    "probing": (probing, HALF_OPEN, True),
}
"""How to get there, what it is called, and whether the key is left out."""

MOVES = {
    ("open", "time"): (HALF_OPEN, False),
    ("half open", "sent"): (HALF_OPEN, True),
    ("probing", "failure of the probe"): (OPEN, True),
    ("probing", "success of the probe"): (CLOSED, False),
    ("probing", "probe over"): (HALF_OPEN, False),
}
"""Whatever is not here changes nothing."""


@pytest.mark.mission("B7")
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_every_event_in_every_state(state: str, event: str) -> None:
    make, circuit, left_out = STATES[state]
    breakers = make()
    assert (breakers.circuit("x"), "x" in breakers.left_out()) == (circuit, left_out)
    changed = EVENTS[event](breakers)
    after, left_out_after = MOVES.get((state, event), (circuit, left_out))
    assert (breakers.circuit("x"), "x" in breakers.left_out()) == (after, left_out_after)
    assert changed == ((state, event) in MOVES)


@pytest.mark.mission("B7")
def test_failures_open_it_only_when_they_come_within_the_window() -> None:
    breakers: Breakers[str] = Breakers(RULE)
    for now in (0.0, 20.0, 40.0, 60.0):
        assert not breakers.failed("x", A, "refused", now)
    assert breakers.failed("x", A, "timed out", 61.0)
    assert breakers.left_out() == {"x": LeftOut(61.0, 71.0, "timed out")}
    assert breakers.next_s() == 71.0
    assert breakers.circuit("y") is CLOSED


def test_each_probe_that_fails_doubles_the_time_up_to_a_bound_and_one_that_works_forgets_it() -> None:
    breakers, lengths_s = opened(), []
    for _ in range(5):
        until_s = breakers.next_s()
        assert until_s is not None
        assert not breakers.expire(until_s - 0.001)
        assert breakers.expire(until_s)
        breakers.sent("x", B)
        assert breakers.left_out()["x"].until_s is None
        breakers.failed("x", B, "refused", until_s)
        again_s = breakers.next_s()
        assert again_s is not None
        lengths_s.append(again_s - until_s)
    assert lengths_s == [20.0, 40.0, 60.0, 60.0, 60.0]
    assert breakers.left_out()["x"].since_s == 0.0, "it has not worked since"
    breakers.expire(1e3)
    breakers.sent("x", B)
    assert breakers.worked("x", B)
    assert [breakers.failed("x", A, "refused", 1e3) for _ in range(3)] == [False, False, True]
    assert breakers.next_s() == 1010.0


def test_who_leaves_takes_failures_and_probe_along() -> None:
    breakers = probing()
    breakers.failed("y", A, "reset", 5.0)
    breakers.forget(lambda key: key == "x")
    assert breakers.circuit("x") is CLOSED
    assert not breakers.over(B)
    assert not breakers.failed("y", A, "reset", 6.0)
    assert breakers.failed("y", A, "reset", 7.0), "the other one's failures count on"


def test_one_request_may_be_the_probe_of_several_circuits() -> None:
    breakers: Breakers[str] = Breakers(BreakerRule(failures_max=1, window_s=1.0, open_s=1.0, open_s_max=1.0))
    for key in "xyz":
        breakers.failed(key, A, "reset", 0.0)
    breakers.expire(1.0)
    assert all(breakers.sent(key, B) for key in "xyz")
    assert breakers.worked("x", B)
    assert breakers.failed("y", B, "reset", 1.0)
    assert breakers.over(B)
    assert [breakers.circuit(key) for key in "xyz"] == [CLOSED, OPEN, HALF_OPEN]
    assert set(breakers.left_out()) == {"y"}


class Against(RuleBasedStateMachine):
    """Any events in any order, against a model that says what a circuit is in so many words."""

    owners: ClassVar = st.sampled_from([A, B, C])

    def __init__(self) -> None:
        super().__init__()
        self.breakers: Breakers[str] = Breakers(RULE)
        self.now = 0.0
        self.failures_s: list[float] = []
        self.length_s = 0.0
        self.until_s: float | None = None
        self.state = "closed"
        self.probe: RequestId | None = None

    def open(self) -> None:
        self.state, self.probe, self.until_s = "open", None, self.now + self.length_s

    @rule(after_s=st.floats(0.0, 40.0))
    def time(self, after_s: float) -> None:
        self.now += after_s
        self.breakers.expire(self.now)
        if self.state == "open" and self.until_s is not None and self.until_s <= self.now:
            self.state = "half open"

    @rule(owner=owners)
    def sent(self, owner: RequestId) -> None:
        self.breakers.sent("x", owner)
        if self.state == "half open" and self.probe is None:
            self.probe = owner

    @rule(owner=owners)
    def failed(self, owner: RequestId) -> None:
        self.breakers.failed("x", owner, "reset", self.now)
        if self.state == "closed":
            self.failures_s.append(self.now)
            if sum(at_s > self.now - RULE.window_s for at_s in self.failures_s) >= RULE.failures_max:
                self.length_s = RULE.open_s
                self.open()
        elif self.state == "half open" and self.probe == owner:
            self.length_s = min(2 * self.length_s, RULE.open_s_max)
            self.open()

    @rule(owner=owners)
    def worked(self, owner: RequestId) -> None:
        self.breakers.worked("x", owner)
        if self.probe == owner:
            self.state, self.probe, self.failures_s = "closed", None, []

    @rule(owner=owners)
    def over(self, owner: RequestId) -> None:
        self.breakers.over(owner)
        if self.probe == owner:
            self.probe = None

    @precondition(lambda self: self.state != "closed")
    @rule()
    def left(self) -> None:
        self.breakers.forget(lambda key: key == "x")
        self.state, self.probe, self.failures_s = "closed", None, []

    @invariant()
    def same(self) -> None:
        assert self.breakers.circuit("x").value.replace("_", " ") == self.state
        assert ("x" in self.breakers.left_out()) == (self.state == "open" or self.probe is not None)
        assert self.breakers.next_s() == (self.until_s if self.state == "open" else None)


TestAgainstModel = Against.TestCase
TestAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.sampled_from(["sent", "failed", "worked", "over", "time"]), max_size=80))
def test_nobody_else_is_sent_while_a_probe_is_under_way(events: list[str]) -> None:
    """Every request has a name of its own; whoever sees `left_out` sends nobody."""
    breakers, now, under_way = opened(), 0.0, []
    for n, event in enumerate(events):
        if event == "sent" and "x" not in breakers.left_out():
            under_way.append(RequestId(str(n)))
            breakers.sent("x", under_way[-1])
        elif event == "time":
            now += 15.0
            if breakers.expire(now):
                under_way = []
        elif under_way and event != "sent":
            owner = under_way.pop()
            if event == "failed":
                breakers.failed("x", owner, "reset", now)
            elif event == "worked":
                breakers.worked("x", owner)
            breakers.over(owner)
        if breakers.circuit("x") is HALF_OPEN:
            assert len(under_way) == len(breakers.left_out()) <= 1
