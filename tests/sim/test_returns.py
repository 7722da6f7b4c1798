"""Clients that come back after a refusal, and what is said of a run over time and by who sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.sim.runs import EXACT, poisson, prompt, run
from vicinal.config.made import made_cluster
from vicinal.sim.result import result
from vicinal.sim.timeline import Sampler
from vicinal.wiring.simulated import simulate, simulation, with_policy
from vicinal.workload.arrival import Arrival, Turn
from vicinal.workload.returns import Returns

ONE = "default:racks=1,prefill=1,decode=1,block_tokens=64,kv_tokens=8192"
"""Room for two of the requests below at a time."""


def crowd(count: int, gap_s: float = 0.001, output_tokens: int = 200) -> list[Arrival]:
    return [
        Arrival(k * gap_s, prompt((k, 3000)), output_tokens, tenant=f"t{k % 2}", service="batch" if k % 3 else None)
        for k in range(count)
    ]


def short_queue(queue_max: int, hold_s_max: float = 1000.0):
    """A cluster that holds few requests and refuses the others."""
    config = with_policy(made_cluster(ONE), "cost", 0)
    return replace(config, scheduler=replace(config.scheduler, queue_max=queue_max, hold_s_max=hold_s_max))


@given(st.one_of(st.none(), st.floats(0.0, 30.0)), st.integers(1, 9), st.booleans())
def test_who_comes_back_and_when(told_s, tries, honours):
    returns = Returns(tries_max=5, honours=honours, pause_s=0.25)
    wait_s = returns.wait_s(told_s, tries)
    if tries >= 5:
        assert wait_s is None
    elif honours and told_s is not None:
        assert wait_s == np.ceil(told_s)
    else:
        assert wait_s == 0.25


@pytest.mark.mission("B7")
@pytest.mark.parametrize("honours", [True, False])
def test_a_refused_request_comes_back_as_another_until_it_is_served_or_given_up(honours):
    physics = replace(EXACT, returns=Returns(tries_max=3, honours=honours), window_s=1.0)
    found = simulate(short_queue(1), iter(crowd(12)), physics).result
    errands = found.errands
    assert errands is not None
    assert errands.errands == 12
    assert errands.requests == found.requests == sum(found.endings.values())
    assert found.completed + errands.given_up == 12
    assert found.endings["queue_full"] > errands.given_up > 0
    assert found.unreasoned == 0
    # From the first request of an errand it takes longer than from the one that was answered, if that was another.
    assert errands.ttft_s.mean > found.ttft_s.mean or not honours


def test_nobody_comes_back_unless_told_to():
    found = simulate(short_queue(1), iter(crowd(12)), EXACT).result
    assert found.requests == 12
    assert found.errands is None
    assert found.endings["queue_full"] == 12 - found.completed


def test_the_next_turn_waits_for_the_last_try():
    busy = crowd(6)
    session = Arrival(0.5, prompt((99, 3000)), 5, session="s", later=(Turn(2.0, prompt((98, 640)), 3),))
    physics = replace(EXACT, returns=Returns(tries_max=50, honours=False, pause_s=0.3))
    made = simulation(short_queue(0), iter([*busy, session]), physics)
    made.run(lambda _arrived, _now: None)
    done = made.measures.completed
    at = next(k for k in range(len(done)) if done.output_tokens[k] == 5)
    assert done.asked_s[at] == 0.5
    assert (done.arrived_s[at] - 0.5) / 0.3 == pytest.approx(round((done.arrived_s[at] - 0.5) / 0.3))
    assert done.arrived_s[at] > 0.5
    follower = next(k for k in range(len(done)) if done.output_tokens[k] == 3)
    assert done.arrived_s[follower] == pytest.approx(done.done_s[at] + 2.0)
    assert done.asked_s[follower] == done.arrived_s[follower]


def test_looking_on_changes_nothing_and_the_windows_add_up():
    config = with_policy(made_cluster("default:block_tokens=64"), "cost", 3)
    plain = run(poisson(200, 8.0), seed=3).measures
    sampler = Sampler(2.0)
    made = simulation(config, poisson(200, 8.0), EXACT, sampler)
    made.run(lambda _arrived, _now: None)
    assert list(made.measures.e2e_s) == list(plain.e2e_s)
    seen = sampler.timeline(made.measures)
    lengths = {len(getattr(seen, name)) for name in ("arrived", "good", "finished_good", "refused", "held", "kept")}
    assert lengths == {len(seen.prefill_load)} == {len(seen.decode_load)} == {len(seen.ttft_p99_s)}
    assert sum(seen.arrived) == 200
    assert sum(seen.good) == sum(seen.finished_good) == made.measures.good
    done = made.measures.completed
    tokens = done.column("prompt_tokens").sum() + 2 * done.column("output_tokens").sum()
    for service in (seen.service, seen.sent):
        assert set(service) == {"t0", "t1", "t2"}
        assert sum(map(sum, service.values())) == pytest.approx(tokens)
    assert max(seen.kept) > 0


def test_service_counts_when_tokens_come():
    """One request alone: its prompt counts in the window of the first token, its answer evenly until the last."""
    sampler = Sampler(0.5)
    made = simulation(
        with_policy(made_cluster("default:block_tokens=64"), "cost", 0),
        iter([Arrival(0.0, prompt((1, 640)), 101, tenant="a"), Arrival(60.0, prompt((2, 640)), 1, tenant="b")]),
        EXACT,
        sampler,
    )
    made.run(lambda _arrived, _now: None)
    first_s, done_s = made.measures.completed.first_s[0], made.measures.completed.done_s[0]
    given_ = sampler.timeline(made.measures).service["a"]
    assert given_[0] == pytest.approx(640 + 202 * (0.5 - first_s) / (done_s - first_s))
    assert sum(given_) == pytest.approx(640 + 202)


def test_who_sent_what_is_told_apart():
    sampler = Sampler(1.0)
    config = short_queue(3)
    made = simulation(config, iter(crowd(30)), EXACT, sampler)
    made.run(lambda _arrived, _now: None)
    found = result(made.measures, "cost", 0, None, 1.0, sampler.timeline(made.measures))
    assert set(found.tenants) == {"t0", "t1"}
    assert set(found.services) == {"interactive", "batch"}
    for groups in (found.tenants, found.services):
        assert sum(group.requests for group in groups.values()) == found.completed
        assert sum(group.refused for group in groups.values()) == found.shed
        assert sum(group.good for group in groups.values()) == made.measures.good
        assert sum(group.tokens for group in groups.values()) == found.completed * 3200
        waits = [group.wait_s.mean for group in groups.values() if group.wait_s.mean is not None]
        assert max(waits) > 0
    assert found.timeline is not None
    assert max(found.timeline.held) == 3
    assert sum(found.timeline.refused) == found.shed


def test_nobody_comes_back_with_what_can_never_be_served():
    physics = replace(EXACT, returns=Returns(tries_max=5, honours=False))
    found = simulate(short_queue(9), iter([Arrival(0.0, prompt((1, 200_000)), 4)]), physics).result
    assert found.endings == {"too_long": 1}
    assert found.requests == 1
