"""Concurrent hand-offs in virtual time: the decode leg starts beside the prefill leg, and pulls when that is done."""

import pytest
from msgspec.structs import replace

from tests.sim.runs import EXACT, poisson, prompt, run_on
from vicinal.config.fleet import Config
from vicinal.config.made import made_cluster
from vicinal.domain.endpoint import HandOff
from vicinal.enginemodel.profiles import profile
from vicinal.sim.faults import Death, Faults
from vicinal.sim.simulation import Simulation
from vicinal.wiring.simulated import with_policy
from vicinal.workload.arrival import Arrival

FIT = profile("llama-3.1-70b-h100-tp8-vllm")


def cluster(kind: HandOff) -> Config:
    made = made_cluster("default:block_tokens=64", {})
    name = "sglang" if kind is HandOff.BOOTSTRAP else "vllm"
    return replace(made, endpoint=tuple(replace(one, hand_off=kind, dialect=name) for one in made.endpoint))


def run(workload, kind=HandOff.BOOTSTRAP, policy="cost", physics=EXACT) -> Simulation:
    return run_on(with_policy(cluster(kind), policy, 0), workload, physics)


def test_a_lone_request_takes_what_a_pulled_hand_off_takes():
    made = run([Arrival(1.0, prompt((1, 1000)), 11)], policy="static_groups")
    bytes_moved = -(-1000 // 64) * 64 * 327_680
    ttft_s = FIT.prefill_s(1000.0, 0.0) + 10e-6 + bytes_moved / 25e9 + FIT.step_s(1.0, 1000.0)
    assert made.measures.ttft_s[0] == pytest.approx(ttft_s, rel=1e-6)


@pytest.mark.parametrize("policy", ["cost", "least_loaded", "round_robin", "affinity", "static_groups"])
def test_everybody_is_served_and_nothing_stays_reserved(policy):
    measures = run(poisson(300, 8.0), policy=policy).measures
    assert len(measures.e2e_s) == 300
    assert sum(measures.bytes_by_level.values()) > 0


@pytest.mark.mission("B12")
@pytest.mark.parametrize("endpoint", ["r1-p1", "r1-d1"])
def test_a_death_loses_nobody_whose_answer_had_not_begun(endpoint):
    physics = replace(EXACT, faults=Faults(deaths=(Death(endpoint, 5.0, 9.0),)))
    made = run(poisson(400, 40.0), physics=physics)
    endings = made.measures.endings
    assert sum(endings.values()) == 400
    assert set(endings) <= {"done", "stream_broken"}
    assert made.measures.warnings["leg_failed"] > 0
