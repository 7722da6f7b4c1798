"""`every_policy`: all of them on four kinds of work and three networks, at 80 % of the best baseline's knee.

Losing cells are as much a result as winning ones: the table says by how much each policy's mean TTFT differs from that
of `cost`, and in which cells some policy is better.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from vicinal.policies.registry import POLICIES
from vicinal.scenarios.figures import figures, mean_ttft_s, relative_ttft
from vicinal.scenarios.knee import BASELINES
from vicinal.scenarios.knees import best_knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Figures, Report, Verdict, at_most
from vicinal.scenarios.unheld import UNHELD
from vicinal.wiring.runs import Run, Work
from vicinal.workload.spread import Spread

FOUR_RACKS = "racks=4,block_tokens=512"
TWO_SMALL_RACKS = "racks=2,prefill=1,decode=1,block_tokens=64,profile=llama-3.1-70b-a100-tp8-vllm"
"""For the agents: their 69 sessions do not load more."""


@dataclass(frozen=True, slots=True)
class Load:
    """The first `limit` requests of a trace on a cluster; its knee is looked for between two multiples of its rate."""

    trace: str
    limit: int | None
    low: float
    high: float
    cluster: str = FOUR_RACKS


LOADS = {
    "conversation": Load("mooncake/conversation_trace.jsonl", 1_000, 2.0, 8.0),
    "synthetic": Load("mooncake/synthetic_trace.jsonl", 1_000, 1.5, 8.0),
    "agent sessions": Load("agent/agent_sessions_blk64.jsonl", None, 1.0, 32.0, TWO_SMALL_RACKS),
    "Azure code": Load("azure2023/AzureLLMInferenceTrace_code.csv", 1_500, 1.0, 16.0),
}
OVERSUBSCRIPTIONS = (1, 4, 8)
SHARE = 0.8
EXTRA = (
    "power_of_two:bias=8",
    "static_groups:borrow_s=1",
    "netkv:oracle=static",
    "prefill_then_decode:prefill=ttft+decode=transfer",
    "prefill_then_decode:prefill=lmetric+decode=transfer",
)


def every_policy(laboratory: Laboratory) -> Report:
    """Each policy once per kind of work and network, with every seed."""
    policies = (*dict.fromkeys((*POLICIES, *EXTRA)),)
    arms: dict[str, Figures] = {}
    better: dict[str, float] = {}
    for name, load in LOADS.items():
        for ratio in OVERSUBSCRIPTIONS:
            place = f"{name}, {ratio}:1"
            base = Run(
                cluster=f"{load.cluster},oversubscription={ratio}",
                config=UNHELD,
                work=Work(source=laboratory.trace(load.trace), limit=load.limit, spread=Spread.RANDOM),
            )
            found = best_knee(laboratory, base, BASELINES, f"knee of {place}", low=load.low, high=load.high)
            scale = SHARE * found.scale
            work = replace(base.work, scale=scale)
            runs = {policy: replace(base, policy=policy, work=work) for policy in policies}
            results = laboratory.arms(runs, f"{place} at {SHARE:.0%} of the knee")
            for policy, each in results.items():
                difference = relative_ttft(each, results["cost"])
                arms[f"{place} at {scale:.2f}×: {policy}"] = {
                    "vs_cost": None if difference is None else difference.mean,
                    "vs_cost_half_width": None if difference is None else difference.half_width,
                    **figures(each),
                }
            others = {policy: mean_ttft_s(each) for policy, each in results.items() if policy != "cost"}
            best = min(others, key=lambda policy: others[policy])
            better[f"{place} ({best})"] = mean_ttft_s(results["cost"]) / others[best] - 1
    verdicts: list[Verdict] = [
        at_most(f"{place}: mean TTFT of cost ÷ the best other's - 1", value, 0.03) for place, value in better.items()
    ]
    return Report(
        name="every_policy",
        about=f"mean TTFT of every policy at {SHARE:.0%} of the best baseline's knee",
        seeds=laboratory.seeds,
        arms=arms,
        verdicts=verdicts,
    )
