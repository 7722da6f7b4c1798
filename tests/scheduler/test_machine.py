"""Any interleaving of what can happen keeps every invariant, and each request meets exactly one end."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.builders import MODEL, endpoint, report, request, tokens
from tests.scheduler.play import Play, idle
from vicinal.cluster.freshness import FreshnessRule
from vicinal.domain.effects import Answer, Cancel, Dispatch, Effect, Record, RecordObservation
from vicinal.domain.endpoint import Endpoint, HandOff, Role
from vicinal.domain.events import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    ClientGone,
    EndpointReported,
    Event,
    FirstToken,
    LegFailed,
    PrefillDone,
    RequestArrived,
    RequestFinished,
)
from vicinal.domain.ids import EndpointId, ModelId, RequestId
from vicinal.domain.plan import Leg
from vicinal.scheduler.settings import SchedulerSettings

SMALL = {"kv_blocks": 120, "sequences_max": 3, "model_tokens_max": 1_500}
FLEET: tuple[Endpoint, ...] = (
    endpoint("p1", Role.PREFILL, "r1", **SMALL),
    endpoint("p2", Role.PREFILL, "r2", **SMALL),
    endpoint("d1", Role.DECODE, "r1", **SMALL),
    endpoint("d2", Role.DECODE, "r2", **SMALL),
    endpoint("b1", Role.BOTH, "r1", **SMALL),
    endpoint("b2", Role.BOTH, "", **SMALL),
)
FLEETS: dict[str, tuple[Endpoint, ...]] = {
    "pulled": FLEET,
    "concurrent": tuple(replace(e, hand_off=HandOff.BOOTSTRAP, hands_off=e.role is not Role.BOTH) for e in FLEET),
    "mixed": tuple(replace(e, hand_off=HandOff.MOONCAKE) if e.id.endswith("2") else e for e in FLEET),
}
NAMES = [str(e.id) for e in FLEET]
PROMPT = tokens(2_000, 1)
IDS = PROMPT.astype("<u4").tobytes()
ENGINE_BLOCKS = 20


class Interleavings(RuleBasedStateMachine):
    """The model knows only which requests arrived; the driver may repeat itself, be late, or be wrong about a leg."""

    @initialize(
        hand_offs=st.sampled_from(sorted(FLEETS)),
        policy_name=st.sampled_from(["cost", "round_robin", "affinity", "least_loaded", "static_groups"]),
        local=st.booleans(),
        seed=st.integers(0, 3),
    )
    def start(self, hand_offs: str, policy_name: str, local: bool, seed: int) -> None:
        self.fleet = FLEETS[hand_offs]
        limits = SchedulerSettings(hold_s_max=5.0, held_max=4)
        rule_ = FreshnessRule(heartbeat_s=3.0)
        self.play = Play(self.fleet, local, limits, policy_name=policy_name, seed=seed, freshness=rule_)
        self.arrived: list[RequestId] = []
        self.endings: Counter[RequestId] = Counter()
        self.answers: Counter[RequestId] = Counter()
        self.recorded: set[RequestId] = set()
        self.attempts: dict[RequestId, int] = {}

    def feed(self, event: Event, after_s: float = 0.0) -> None:
        self.take(self.play.feed(event, after_s))

    def take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case RecordObservation(observation):
                    self.endings[observation.request_id] += 1
                case Answer(request_id, _):
                    self.answers[request_id] += 1
                    assert request_id in self.arrived
                case Record(decision):
                    assert not self.endings[decision.request_id], "nothing is decided for what is over"
                    self.recorded.add(decision.request_id)
                case Dispatch():
                    assert effect.request_id in self.recorded
                    assert effect.endpoint in {e.id for e in FLEET}
                    assert effect.endpoint == (effect.plan.decode if effect.leg is Leg.DECODE else effect.plan.prefill)
                    before = self.attempts.get(effect.request_id, 0)
                    assert effect.attempt == before + (effect.leg is not Leg.DECODE)
                    self.attempts[effect.request_id] = effect.attempt
                case Cancel(request_id, _):
                    assert request_id in self.arrived
        assert all(count == 1 for count in self.endings.values())
        alarm = self.play.scheduler.next_alarm()
        scheduler = self.play.scheduler
        quiet = (
            len(scheduler.turns.flow) == 0 and scheduler.unseen.next_s() is None and scheduler.blame.next_s() is None
        )
        assert (alarm is None) == quiet

    @rule(
        tokens_=st.integers(1, 1_600),
        output=st.integers(1, 300),
        splittable=st.booleans(),
        model=st.sampled_from([MODEL] * 9 + [ModelId("unheard-of")]),
        after_s=st.floats(0, 2),
    )
    def arrives(self, tokens_: int, output: int, splittable: bool, model: ModelId, after_s: float) -> None:
        name = RequestId(f"q{len(self.arrived)}")
        self.arrived.append(name)
        asked = request(name, PROMPT[:tokens_], output, splittable=splittable, model=model)
        self.feed(RequestArrived(asked), after_s)

    def one(self, data: st.DataObject) -> tuple[RequestId, int]:
        """A request that arrived, mostly a live one, and an attempt, mostly its current one."""
        live = sorted(self.play.scheduler.requests)
        name = data.draw(st.sampled_from([*(live * 8), *self.arrived[-3:], RequestId("nobody")]))
        tracked = self.play.scheduler.requests.get(name)
        current = tracked.attempt if tracked else 1
        return name, data.draw(st.sampled_from([current] * 8 + [current - 1, current + 1]))

    @rule(data=st.data(), handed_off=st.sampled_from([True, True, True, False]), after_s=st.floats(0, 1))
    def prefill_is_done(self, data: st.DataObject, handed_off: bool, after_s: float) -> None:
        name, attempt = self.one(data)
        self.feed(PrefillDone(name, attempt, None, handed_off), after_s)

    @rule(data=st.data(), after_s=st.floats(0, 1))
    def first_token(self, data: st.DataObject, after_s: float) -> None:
        name, attempt = self.one(data)
        self.feed(FirstToken(name, attempt), after_s)

    @rule(data=st.data(), output=st.none() | st.integers(0, 300), after_s=st.floats(0, 1))
    def finishes(self, data: st.DataObject, output: int | None, after_s: float) -> None:
        name, attempt = self.one(data)
        self.feed(RequestFinished(name, attempt, output), after_s)

    @rule(
        data=st.data(),
        leg=st.sampled_from(Leg),
        client_fault=st.booleans(),
        started=st.booleans(),
        answered=st.booleans(),
    )
    def leg_fails(self, data: st.DataObject, leg: Leg, client_fault: bool, started: bool, answered: bool) -> None:
        name, attempt = self.one(data)
        self.feed(LegFailed(name, attempt, leg, "refused", client_fault, started, answered))

    @rule(data=st.data())
    def client_leaves(self, data: st.DataObject) -> None:
        self.feed(ClientGone(self.one(data)[0]))

    @rule(data=st.data())
    def id_is_used_twice(self, data: st.DataObject) -> None:
        live = sorted(self.play.scheduler.requests)
        if live:
            name = data.draw(st.sampled_from(live))
            before = self.answers[name]
            self.feed(RequestArrived(request(name, PROMPT[:64])))
            self.answers[name] = before  # the second's answer, not the first's

    @rule(
        name=st.sampled_from(NAMES),
        running=st.none() | st.integers(0, 4),
        kv_usage=st.none() | st.floats(0, 1),
        after_s=st.floats(0, 4),
    )
    def reports(self, name: str, running: int | None, kv_usage: float | None, after_s: float) -> None:
        self.play.now += after_s
        said = report(EndpointId(name), self.play.now, running=running, kv_usage=kv_usage)  # type: ignore[arg-type]
        self.feed(EndpointReported(said))

    @rule(after_s=st.floats(0, 4))
    def all_report(self, after_s: float) -> None:
        self.play.now += after_s
        for name in NAMES:
            self.feed(EndpointReported(report(EndpointId(name), self.play.now)))

    @rule(name=st.sampled_from(NAMES))
    def unreachable(self, name: str) -> None:
        self.take(self.play.unreachable(name))

    @rule(name=st.sampled_from(NAMES), blocks=st.integers(1, ENGINE_BLOCKS), incarnation=st.integers(0, 1))
    def stores(self, name: str, blocks: int, incarnation: int) -> None:
        hashes = tuple(range(blocks))
        self.feed(BlocksStored(EndpointId(name), incarnation, 0, None, hashes, IDS[: blocks * 64], 16))

    @rule(name=st.sampled_from(NAMES), block=st.integers(0, ENGINE_BLOCKS), incarnation=st.integers(0, 1))
    def removes(self, name: str, block: int, incarnation: int) -> None:
        self.feed(BlocksRemoved(EndpointId(name), incarnation, 0, (block,)))

    @rule(name=st.sampled_from(NAMES), incarnation=st.integers(0, 1))
    def clears(self, name: str, incarnation: int) -> None:
        self.feed(BlocksCleared(EndpointId(name), incarnation, 0, "reset"))

    @rule(kept=st.sets(st.sampled_from(NAMES), min_size=1), new_url=st.booleans())
    def fleet_changes(self, kept: set[str], new_url: bool) -> None:
        fleet = [one for one in self.fleet if one.id in kept]
        if new_url:
            fleet[0] = replace(fleet[0], kv_blocks=100 + len(fleet))
        self.take(self.play.fleet(fleet))

    @rule()
    def fleet_is_whole_again(self) -> None:
        self.take(self.play.fleet(self.fleet))

    @rule()
    def alarm_rings(self) -> None:
        due = self.play.scheduler.next_alarm()
        if due is not None and due >= self.play.now:
            holding = self.play.scheduler.turns.flow
            overdue = [waiting.request.id for waiting in holding.expired(due)]
            self.take(self.play.alarm())
            assert not any(request_id in holding for request_id in overdue)

    def teardown(self) -> None:
        if not hasattr(self, "play"):
            return
        for name in sorted(self.play.scheduler.requests):
            if name in self.play.scheduler.requests:  # ending one may refuse another
                self.feed(ClientGone(name))
        assert idle(self.play)
        assert self.endings == Counter(self.arrived), "one end each"
        assert all(count <= 1 for count in self.answers.values())


Interleavings.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestInterleavings = pytest.mark.mission("B11", "B12")(Interleavings.TestCase)
