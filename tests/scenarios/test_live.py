"""The live laboratory: a small run on the embedded cluster, reported like a simulated one."""

import pytest

from vicinal.scenarios.live import LiveLaboratory, LiveRun, clock_debt, worth
from vicinal.scenarios.registry import LIVE, SCENARIOS, live_scenario
from vicinal.scenarios.report import ScenarioError
from vicinal.workload.returns import Returns

WORK = (
    "tenants:names=a/b/b,services=interactive/batch/interactive,rates=6/2/1,text_tokens=700/900/20000,"
    "output_tokens=16,prefixes=1"
)


def test_a_live_run_is_told_apart_by_tenant_and_class_and_says_its_clock_debt():
    said: list[str] = []
    laboratory = LiveLaboratory(1, 1.0, said.append)
    arms = laboratory.arms({"live: usual": LiveRun(work=WORK, duration_s=4.0, returns=Returns(tries_max=2))}, "test")
    ((lived,),) = arms.values()
    result = lived.result
    assert result.requests == result.completed == result.endings["done"] > 20
    assert set(result.tenants) == {"a", "b"}
    assert set(result.services) == {"interactive", "batch"}
    for groups in (result.tenants, result.services):
        assert sum(group.requests for group in groups.values()) == result.completed
        assert sum(group.tokens for group in groups.values()) > 700 * result.completed
    assert result.services["batch"].requests < result.tenants["b"].requests
    assert 0.0 < result.ttft_s.mean < 60.0
    assert 0 < lived.kept_most <= result.requests
    assert clock_debt(arms) == result.clock_debt < float("inf")
    assert f"{result.clock_debt:.1%}" in worth(arms)
    assert any("seed 0" in words for words in said)


def test_live_editions_are_of_scenarios_and_others_say_so():
    assert set(LIVE) <= set(SCENARIOS)
    with pytest.raises(ScenarioError, match="runs in the simulator only"):
        live_scenario("netkv")
    with pytest.raises(ScenarioError, match="Did you mean 'netkv'"):
        live_scenario("netvk")
