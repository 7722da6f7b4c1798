"""The live emulated cluster and the simulator on one workload: their latencies are of one distribution."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.ports import free_row
from tests.up.test_up import PORTS
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.observe.two_samples import two_samples
from vicinal.replay.process import ConversationWorkload, arrivals_of
from vicinal.replay.summary import CLOCK_DEBT_MAX
from vicinal.wiring.embedded import vocabulary_of
from vicinal.wiring.parity import Side, parity_at_ease, simulated_side
from vicinal.workload.prompt import Vocabulary

WORKLOAD = ConversationWorkload(seed=0, count=120, rate=8.0)
"""Fifteen seconds of model time; the prefill engines are busy for a quarter to a half of it, by policy."""
SPEEDS = (2.0, 1.0)


@pytest.mark.mission("C4")
@pytest.mark.parametrize("policy", ["cost", "least_loaded", "round_robin"])
async def test_live_and_simulated_latencies_are_of_one_distribution(tmp_path: Path, policy: str) -> None:
    config = default_cluster(free_row(PORTS), policy=policy, record_directory=str(tmp_path / "record"))
    found = await parity_at_ease(config, WORKLOAD, SPEEDS)
    if not found.valid:
        pytest.skip(f"the machine is too busy: clock debt {found.clock_debt:.1%}, limit {CLOCK_DEBT_MAX:.0%}")
    assert found.live.completed == found.simulated.completed == found.requests == 120
    assert found.ttft.agree, found.ttft
    assert found.tpot.agree, found.tpot
    if policy == "round_robin":
        # It looks at nothing and draws nothing, so both runs take the same decisions and move the same bytes; save
        # that requests which come within milliseconds of each other may change places, and turns, on their way.
        assert found.live.kv_bytes == pytest.approx(found.simulated.kv_bytes, rel=0.1)
        assert found.live.prefix_hit_rate == pytest.approx(found.simulated.prefix_hit_rate, rel=0.05)


def simulated(config: Config, workload: ConversationWorkload = WORKLOAD) -> Side:
    return simulated_side(config, arrivals_of(workload, vocabulary_of(config)))


def test_the_comparison_can_fail() -> None:
    """A slower network, or another policy, is told apart by as many requests."""
    plain = simulated(default_cluster(policy="least_loaded"))
    other_seed = simulated(default_cluster(policy="least_loaded", seed=1))
    other_policy = simulated(default_cluster(policy="cost"))
    assert two_samples(plain.ttft_s, other_seed.ttft_s).agree
    assert not two_samples(plain.ttft_s, other_policy.ttft_s).agree
    config = default_cluster(policy="least_loaded")
    config = msgspec.structs.replace(config, network=msgspec.structs.replace(config.network, nic_gbytes_per_s=8.0))
    assert not two_samples(plain.ttft_s, simulated(config).ttft_s).agree


def test_the_simulated_side_gets_what_the_client_sends() -> None:
    """The engine's own words are in no later prompt, so what answers leave in caches is never found again."""
    config = default_cluster(policy="round_robin")
    arrivals = arrivals_of(ConversationWorkload(seed=0, count=40), Vocabulary(5, 900))
    assert any(arrival.answer for arrival in arrivals)
    assert simulated_side(config, arrivals) == simulated_side(
        config, [replace(arrival, answer=None, tenant="x") for arrival in arrivals]
    )
