"""`every_policy`: all of them on four kinds of work and three networks, at 80 % of the best baseline's knee.

Losing cells are as much a result as winning ones: the table says by how much each policy's mean TTFT differs from that
of `cost`, and in which cells some policy is better.
"""

from vicinal.policies.registry import POLICIES
from vicinal.scenarios.figures import figures, mean_ttft_s, relative_ttft
from vicinal.scenarios.knee import BASELINES
from vicinal.scenarios.knees import best_knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Figures, Report, Verdict, at_most
from vicinal.wiring.runs import Run, Work
from vicinal.workload.spread import Spread

WORKS = {
    "conversation": ("mooncake/conversation_trace.jsonl", 1_500, 2.0, 8.0),
    "synthetic": ("mooncake/synthetic_trace.jsonl", 1_500, 1.0, 8.0),
    "agent sessions": ("agent/agent_sessions_blk64.jsonl", None, 1.0, 64.0),
    "Azure code": ("azure2023/AzureLLMInferenceTrace_code.csv", 3_000, 2.0, 64.0),
}
"""Trace, how many requests of it, and between which multiples of its rate the knee is looked for."""
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
    for work, (file, limit, low, high) in WORKS.items():
        for ratio in OVERSUBSCRIPTIONS:
            place = f"{work}, {ratio}:1"
            block_tokens = 64 if "agent" in file else 512
            base = Run(
                cluster=f"racks=4,oversubscription={ratio},block_tokens={block_tokens}",
                work=Work(source=laboratory.trace(file), limit=limit, spread=Spread.RANDOM),
            )
            found = best_knee(laboratory, base, BASELINES, f"knee of {place}", low=low, high=high)
            scale = SHARE * found.scale
            runs = {
                policy: Run(
                    cluster=base.cluster,
                    policy=policy,
                    work=Work(source=base.work.source, limit=limit, spread=base.work.spread, scale=scale),
                )
                for policy in policies
            }
            results = laboratory.arms(runs, f"{place} at {SHARE:.0%} of the knee")
            for policy, each in results.items():
                difference = relative_ttft(each, results["cost"])
                arms[f"{place} at {scale:.2f}×: {policy}"] = {
                    "vs_cost": None if difference is None else difference.mean,
                    "vs_cost_half_width": None if difference is None else difference.half_width,
                    **figures(each),
                }
            others = {policy: mean_ttft_s(each) for policy, each in results.items() if policy != "cost"}
            best = min(others, key=lambda name: others[name])
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
