"""Whole runs, whatever comes: each request is in one place at a time and ends in exactly one outcome.

Hypothesis makes up fleets that are too small, tenants with and without quotas, clients that come back, engines that
die and news that is lost. What is watched is what a driver sees: the events that go in and the effects that come out.
"""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from vicinal.config.load import over
from vicinal.config.made import made_cluster
from vicinal.domain.effects import Answer, Dispatch, RecordObservation
from vicinal.domain.events import RequestArrived
from vicinal.domain.outcome import Ending
from vicinal.scheduler.states import State
from vicinal.scheduler.validate import validate
from vicinal.sim.faults import Death, EventFaults, Faults, ReportFaults
from vicinal.wiring.runs import Work, arrivals
from vicinal.wiring.simulated import Physics, Truth, simulation, with_policy
from vicinal.workload.returns import Returns

RATE, BURST_S = 2.0, 3.0
TENANTS = f"""
[server]
trust_tenant_header = true
[[tenant]]
name = "b"
requests_per_s = {RATE}
burst_s = {BURST_S}
"""
KINDS = """
[[service]]
name = "interactive"
band = "interactive"
[[service]]
name = "batch"
band = "batch"
wait_s_max = 8.0
"""


@dataclass(slots=True)
class Watch:
    """Where each request is, by what went in and came out."""

    arrived: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    sent: dict[str, int] = field(default_factory=dict)
    accepted_s: list[float] = field(default_factory=list)
    held_most: int = 0

    def look(self, scheduler, event, effects, now) -> None:
        if isinstance(event, RequestArrived):
            assert event.request.id not in self.ended
            self.arrived.append(event.request.id)
            refused = {effect.request_id: effect.outcome.ending for effect in effects if isinstance(effect, Answer)}
            if event.request.tenant == "b" and refused.get(event.request.id) is not Ending.QUOTA_EXCEEDED:
                self.accepted_s.append(now)
        for effect in effects:
            match effect:
                case RecordObservation(seen):
                    self.ended[seen.request_id] += 1
                    assert seen.ending == Ending.DONE or seen.reason
                case Answer(request_id, outcome):
                    self.answered[request_id] += 1
                    assert outcome.reason, f"{request_id} was refused ({outcome.ending}) without a reason"
                    assert (outcome.retry_after_s is None) or outcome.retry_after_s >= 0
                case Dispatch(request_id, attempt):
                    assert request_id not in self.ended
                    assert attempt >= self.sent.get(request_id, 0)
                    self.sent[request_id] = attempt
                case _:
                    pass
        alive = set(scheduler.requests)
        assert alive == set(self.arrived) - set(self.ended), "a request is nowhere, or in two places"
        held = [one.id for one in scheduler.requests.values() if one.state is State.HELD]
        self.held_most = max(self.held_most, len(held))


def watched(made) -> Watch:
    """A simulation whose scheduler is looked at after every event."""
    watch, handle, events = Watch(), made.scheduler.handle, 0

    def looking(event, now):
        nonlocal events
        effects = handle(event, now)
        watch.look(made.scheduler, event, effects, now)
        events += 1
        if events % 50 == 0:
            validate(made.scheduler)
        return effects

    made.scheduler.handle = looking
    return watch


worlds = st.fixed_dictionaries(
    {
        "queue_max": st.sampled_from([0, 3, 40]),
        "hold_s_max": st.sampled_from([0.5, 5.0]),
        "rates": st.tuples(*(st.floats(0.5, 8.0) for _ in range(3))),
        "tokens": st.tuples(*(st.sampled_from([300, 3000, 15_000]) for _ in range(3))),
        "kv_tokens": st.sampled_from([18_000, 60_000]),
        "sequences_max": st.sampled_from([2, 64]),
        "quota": st.booleans(),
        "returns": st.sampled_from([Returns(1), Returns(3), Returns(3, honours=False, pause_s=0.2)]),
        "deaths": st.sampled_from(
            [(), (Death("r1-p1", 3.0, 7.0),), (Death("r1-d1", 2.0, 4.0), Death("r1-p1", 5.0)), (Death("r1-d1", 1.0),)]
        ),
        "lost": st.sampled_from([0.0, 0.4]),
        "seed": st.integers(0, 10_000),
    }
)


def build(world, flow: str = ""):
    cluster = f"racks=1,prefill=2,decode=2,block_tokens=64,kv_tokens={world['kv_tokens']}"
    config = made_cluster(f"{cluster},sequences_max={world['sequences_max']}")
    text = KINDS + (TENANTS if world["quota"] else "") + flow
    text += f"[scheduler]\nqueue_max = {world['queue_max']}\nhold_s_max = {world['hold_s_max']}\n"
    config = with_policy(over(config, text, "test"), "cost", world["seed"])
    words = "/".join(f"{rate:g}" for rate in world["rates"]), "/".join(map(str, world["tokens"]))
    source = (
        f"tenants:names=a/b/a,services=interactive/interactive/batch,rates={words[0]},text_tokens={words[1]},"
        "output_tokens=20,prefixes=2,prefix_tokens=640"
    )
    physics = Physics(
        truth=Truth.GRID,
        until_unstable=False,
        returns=world["returns"],
        faults=Faults(ReportFaults(0.1, 0.5, world["lost"]), EventFaults(0.3, 60.0), world["deaths"]),
    )
    return simulation(config, arrivals(Work(source=source, duration_s=12.0), world["seed"]), physics)


@pytest.mark.mission("B4", "B5")
# To shrink a world takes minutes, and a failing one is small enough to be understood.
@settings(deadline=None, max_examples=25, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds)
def test_each_request_is_in_one_place_and_ends_in_one_outcome(world):
    made = build(world)
    watch = watched(made)
    made.run(lambda _arrived, _now: None)
    assert not made.scheduler.requests
    assert set(watch.ended) == set(watch.arrived) == set(watch.answered) | (set(watch.ended) - set(watch.answered))
    assert set(watch.ended.values()) <= {1}
    assert set(watch.answered.values()) <= {1}
    assert len(watch.arrived) == len(set(watch.arrived))
    measures = made.measures
    assert sum(measures.endings.values()) == len(watch.arrived)
    assert measures.endings["done"] == len(watch.arrived) - len(watch.answered)
    assert watch.held_most <= max(world["queue_max"], 0) + 1
    validate(made.scheduler)
    if world["quota"]:
        within_quota(watch.accepted_s)


def within_quota(accepted_s: list[float]) -> None:
    """In no interval more than the burst, what the rate gives in it, and one request."""
    for first, from_s in enumerate(accepted_s):
        for last in range(first, len(accepted_s)):
            spent = last - first + 1
            assert spent <= RATE * BURST_S + RATE * (accepted_s[last] - from_s) + 1 + 1e-6


def test_a_request_that_is_lost_would_be_seen():
    """The watch itself can fail."""
    world = {
        "queue_max": 3,
        "hold_s_max": 5.0,
        "rates": (2.0, 2.0, 2.0),
        "tokens": (300, 300, 300),
        "kv_tokens": 60_000,
        "sequences_max": 64,
        "quota": False,
        "returns": Returns(1),
        "deaths": (),
        "lost": 0.0,
        "seed": 1,
    }
    made = build(world)
    watch = watched(made)
    handle = made.scheduler.handle

    def losing(event, now):
        if isinstance(event, RequestArrived) and event.request.id == "sim-7":
            watch.arrived.append(event.request.id)
            return []
        return handle(event, now)

    made.scheduler.handle = losing
    with pytest.raises(AssertionError, match="nowhere"):
        made.run(lambda _arrived, _now: None)
