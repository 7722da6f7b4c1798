"""The same interleavings with tenants that have quotas and reserves: what is charged is what was used, and no more."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.builders import MODEL, request
from tests.scheduler.play import Play
from tests.scheduler.test_machine import FLEETS, PROMPT, Interleavings
from vicinal.cluster.freshness import FreshnessRule
from vicinal.domain.effects import Answer, Dispatch, Effect
from vicinal.domain.events import Event, RequestArrived, RequestFinished
from vicinal.domain.ids import EndpointId, RequestId, TenantId
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Leg
from vicinal.domain.request import Request
from vicinal.flow.quotas.rules import Quota, Rules
from vicinal.flow.tenants import Tenant
from vicinal.scheduler.settings import SchedulerSettings

BURST_S = 1e12
PER_S = 1e-6
NEVER_FULL = Rules(
    requests_per_s=PER_S,
    tokens_per_s=PER_S,
    hbm_block_seconds_per_s=PER_S,
    remote_reads_per_s=PER_S,
    burst_s=BURST_S,
    kept_blocks_max=50,
)
"""Buckets that nobody empties and that gain nothing: what is missing in them was charged."""

METERED, BOUNDED, OWNER, OTHER = (TenantId(name) for name in ("metered", "bounded", "owner", "other"))
MOST = 2
TENANTS = (
    Tenant(METERED, rules=NEVER_FULL),
    Tenant(BOUNDED, rules=Rules(concurrency_max=MOST)),
    Tenant(OWNER, reserved_endpoints=(EndpointId("b2"),), reserved_share=0.34),
)


class TenantInterleavings(Interleavings):
    @initialize(hand_offs=st.sampled_from(sorted(FLEETS)), local=st.booleans(), seed=st.integers(0, 3))
    def start(self, hand_offs: str, local: bool, seed: int) -> None:
        self.fleet = FLEETS[hand_offs]
        limits = SchedulerSettings(hold_s_max=5.0, held_max=4)
        rule_ = FreshnessRule(heartbeat_s=3.0)
        self.play = Play(self.fleet, local, limits, seed=seed, freshness=rule_, tenants=TENANTS)
        self.arrived: list[RequestId] = []
        self.endings: Counter[RequestId] = Counter()
        self.answers: Counter[RequestId] = Counter()
        self.recorded: set[RequestId] = set()
        self.attempts: dict[RequestId, int] = {}
        self.asked: dict[RequestId, Request] = {}
        self.lengths: dict[RequestId, int | None] = {}
        self.used: Counter[Quota] = Counter()
        self.sent: set[RequestId] = set()
        self.held_at_s = 0.0

    def feed(self, event: Event, after_s: float = 0.0) -> None:
        live = set(self.play.scheduler.requests)
        self.pass_time(self.play.now + after_s)
        super().feed(event, after_s)
        if isinstance(event, RequestFinished) and event.request_id in live - set(self.play.scheduler.requests):
            self.lengths[event.request_id] = event.output_tokens

    def pass_time(self, now: float) -> None:
        """Block-seconds, added up by looking at every reservation whenever the clock moves."""
        for (owner, _), blocks in self.play.scheduler.state.ledger.blocks.items():
            if self.asked[owner].tenant == METERED:
                self.used[Quota.HBM_BLOCK_S] += blocks * (now - self.held_at_s)
        self.held_at_s = now

    def take(self, effects: Sequence[Effect]) -> None:
        self.pass_time(self.play.now)
        super().take(effects)
        for effect in effects:
            if isinstance(effect, Dispatch):
                asked = self.asked[effect.request_id]
                self.sent.add(effect.request_id)
                if asked.tenant == METERED and effect.leg is Leg.DECODE and effect.plan.moved_tokens:
                    self.used[Quota.REMOTE_READS] += 1
                if asked.tenant != OWNER and effect.endpoint == "b2":
                    raise AssertionError("only its owner is placed on a reserved endpoint")
        live = Counter(tracked.request.tenant for tracked in self.play.scheduler.requests.values())
        assert live[BOUNDED] <= MOST

    @rule(
        tokens_=st.integers(1, 1_600),
        output=st.integers(1, 300),
        splittable=st.booleans(),
        tenant=st.sampled_from([METERED, METERED, METERED, BOUNDED, OWNER, OTHER]),
        after_s=st.floats(0, 2),
    )
    def arrives(self, tokens_: int, output: int, splittable: bool, tenant: TenantId, after_s: float) -> None:  # type: ignore[override]
        name = RequestId(f"q{len(self.arrived)}")
        self.arrived.append(name)
        self.asked[name] = asked = request(name, PROMPT[:tokens_], output, splittable=splittable, tenant=tenant)
        live = [tracked.request.tenant for tracked in self.play.scheduler.requests.values()]
        self.pass_time(self.play.now + after_s)
        effects = self.play.feed(RequestArrived(asked), after_s)
        refused = [
            effect.outcome
            for effect in effects
            if isinstance(effect, Answer) and effect.request_id == name and effect.outcome.detail
        ]
        assert bool(refused) == (tenant == BOUNDED and live.count(BOUNDED) == MOST)
        for outcome in refused:
            assert (outcome.ending, outcome.detail) == (Ending.QUOTA_EXCEEDED, "concurrency_max")
        self.used[Quota.REQUESTS] += tenant == METERED
        self.take(effects)

    @rule()
    def alarm_rings(self) -> None:
        due = self.play.scheduler.next_alarm()
        if due is not None and due >= self.play.now:
            self.pass_time(due)
            self.take(self.play.alarm())

    def teardown(self) -> None:
        super().teardown()
        if not hasattr(self, "play"):
            return
        for name, asked in self.asked.items():
            if asked.tenant == METERED and name in self.sent:
                length = self.lengths.get(name)
                answer = asked.expected_output_tokens if length is None else length
                self.used[Quota.TOKENS] += asked.prompt_tokens + answer
        account = self.play.scheduler.tenancy.quotas.account(METERED, MODEL)
        if account is None:
            assert not any(self.used.values())
            return
        for quota in (Quota.REQUESTS, Quota.TOKENS, Quota.HBM_BLOCK_S, Quota.REMOTE_READS):
            left = account.left(quota, self.play.now)
            assert left is not None
            assert PER_S * BURST_S - left == pytest.approx(self.used[quota], rel=1e-6, abs=0.01)


TenantInterleavings.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTenantInterleavings = pytest.mark.mission("B6", "B11")(TenantInterleavings.TestCase)
