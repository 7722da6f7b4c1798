"""Whole runs: everybody is served, nothing stays reserved, equal seeds are equal runs, and time is the engines'."""

import pytest

from tests.sim.runs import EXACT, poisson, prompt, run
from vicinal.enginemodel.profiles import profile
from vicinal.sim.requests import Foresight, UnknownServiceError
from vicinal.wiring.simulated import Physics, Truth
from vicinal.workload.arrival import Arrival, Turn
from vicinal.workload.prompt import Piece

FIT = profile("llama-3.1-70b-h100-tp8-vllm")


def test_a_lone_request_takes_what_the_formulas_say():
    """Prefill, the transfer of the whole prompt through two interfaces, one step; then its decode steps."""
    made = run([Arrival(1.0, prompt((1, 1000)), 11)], policy="static_groups")
    bytes_moved = -(-1000 // 64) * 64 * 327_680
    ttft_s = FIT.prefill_s(1000.0, 0.0) + 10e-6 + bytes_moved / 25e9 + FIT.step_s(1.0, 1000.0)
    assert made.measures.ttft_s[0] == pytest.approx(ttft_s, rel=1e-6)
    assert made.measures.e2e_s[0] - ttft_s == pytest.approx(sum(FIT.step_s(1.0, 1000.0 + k) for k in range(1, 11)))


@pytest.mark.mission("C4")
def test_equal_seeds_are_equal_runs_and_others_differ():
    physics = Physics(truth=Truth.GRID, noise=0.1, foresight=Foresight.MEAN)
    once, again, other = (
        run(poisson(200, 4.0), policy="round_robin", seed=seed, physics=physics).measures for seed in (3, 3, 4)
    )
    assert list(once.e2e_s) == list(again.e2e_s)
    assert once.bytes_by_level == again.bytes_by_level
    assert list(once.e2e_s) != list(other.e2e_s)


@pytest.mark.parametrize("policy", ["cost", "least_loaded", "round_robin", "affinity", "static_groups"])
def test_everybody_is_served_and_nothing_stays_reserved(policy):
    measures = run(poisson(300, 8.0), policy=policy).measures
    assert len(measures.e2e_s) == 300
    assert measures.prompt_tokens == 300 * 2048
    assert min(measures.ttft_s) >= FIT.prefill_s(2048.0, 1984.0)


def test_a_shared_prefix_is_computed_once_per_endpoint_at_most():
    measures = run(poisson(100, 1.0), policy="prefill_first").measures
    assert 95 * 512 <= measures.cached_tokens <= 99 * 512


@pytest.mark.mission("A7")
def test_a_next_turn_follows_its_answer_and_moves_only_what_the_decode_side_lacks():

    answer = Piece(7, 320)
    second = Turn(2.0, prompt((1, 3200), (7, 320), (2, 128)), 64)
    made = run([Arrival(0.0, prompt((1, 3200)), 320, answer=answer, later=(second,))])
    first_end_s = made.measures.e2e_s[0]
    assert made.measures.arrived_s[1] == pytest.approx(first_end_s + 2.0)
    moved_tokens = sum(made.measures.bytes_by_level.values()) / 327_680
    assert moved_tokens < 3200 + 512


@pytest.mark.mission("B12")
def test_a_rate_past_capacity_ends_the_run_and_says_so():
    physics = Physics(truth=Truth.FIT, noise=0.0)
    made = run(poisson(20_000, 80.0), policy="least_loaded", physics=physics)
    assert made.unstable is not None
    assert len(made.measures.e2e_s) < 10_000
    # Four prefill endpoints; prompts that share a step share its base.
    alone_s = FIT.prefill_s(2048.0, 512.0)
    rate_per_s = made.unstable.rate_per_s
    assert rate_per_s == pytest.approx(80.0, rel=0.1)
    assert rate_per_s - 4 / (alone_s - FIT.prefill_base_s) < made.unstable.slope_per_s < rate_per_s - 4 / alone_s
    assert "unstable" in made.unstable.words


def test_a_burst_is_not_taken_for_instability():
    burst = [Arrival(float(k // 400), prompt((k, 2048)), 5) for k in range(1600)]
    later = [Arrival(400.0 + k, prompt((5000 + k, 2048)), 5) for k in range(400)]
    assert run(burst + later, physics=Physics(truth=Truth.FIT, noise=0.0)).unstable is None


def test_foresight_changes_what_is_expected_not_what_happens():
    known, mean = (
        run(poisson(50, 0.2), policy="round_robin", physics=Physics(truth=Truth.FIT, noise=0.0, foresight=foresight))
        for foresight in Foresight
    )
    assert list(known.measures.ttft_s) == pytest.approx(list(mean.measures.ttft_s))
    assert EXACT.foresight is Foresight.MEAN


def test_a_turn_that_is_refused_does_not_end_its_session():
    """The second turn fits no endpoint; the third comes its pause later, as a live client would send it."""
    turns = (Turn(1.0, prompt((1, 200_000)), 4), Turn(2.0, prompt((1, 3200)), 4))
    made = run([Arrival(0.0, prompt((1, 3200)), 4, later=turns)])
    assert made.measures.endings == {"done": 2, "too_long": 1}
    first_end_s = made.measures.e2e_s[0]
    assert made.measures.arrived_s[1] == pytest.approx(first_end_s + 1.0 + 2.0)


def test_a_kind_that_the_cluster_does_not_know_is_refused_by_name():
    with pytest.raises(UnknownServiceError, match="kind 'gold' and the cluster knows interactive, batch"):
        run([Arrival(0.0, prompt((1, 100)), 1, service="gold")])
