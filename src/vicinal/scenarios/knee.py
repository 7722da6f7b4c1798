"""`knee`: prices keep a joint choice good where it matters, at the rate that a fleet is bought for.

A policy that takes each request's own fastest plan is the best below the knee and the worst near it: it spends prefill
seconds that others wait for. `cost` posts a price on them. Run on the first requests of both Mooncake traces, at 60, 90
and 100 % of the best baseline's knee, with leaf uplinks of 1:1, 4:1 and 8:1.
"""

from msgspec.structs import replace

from vicinal.scenarios.figures import figures, mean_ttft_s
from vicinal.scenarios.knees import best_knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Figures, Report, Verdict, at_least, at_most
from vicinal.scenarios.unheld import UNHELD
from vicinal.wiring.runs import Run, Work
from vicinal.workload.spread import Spread

TRACES = {"conversation": "mooncake/conversation_trace.jsonl", "synthetic": "mooncake/synthetic_trace.jsonl"}
BASELINES = (
    "least_loaded",
    "affinity",
    "static_groups",
    "lmetric",
    "mooncake",
    "netkv",
    "prefill_then_decode:prefill=ttft+decode=transfer",
    "prefill_then_decode:prefill=lmetric+decode=transfer",
)
SELFISH = "selfish"
PAIRS = "cost:local=no"
"""`cost` without what the baselines may not do: a decode endpoint that prefills by itself."""
SHARES = (0.6, 0.9, 1.0)
OVERSUBSCRIPTIONS = (1, 4, 8)
REQUESTS = 1_500


def knee(laboratory: Laboratory) -> Report:
    """`cost`, its selfish variant and the baselines, at three loads of three networks on two traces."""
    arms: dict[str, Figures] = {}
    at_knee: list[float] = []
    elsewhere: list[float] = []
    collapse: list[float] = []
    pairs: list[float] = []
    policies = ("cost", PAIRS, SELFISH, *BASELINES)
    for trace, file in TRACES.items():
        for ratio in OVERSUBSCRIPTIONS:
            place = f"{trace}, {ratio}:1"
            base = Run(
                cluster=f"racks=4,oversubscription={ratio},block_tokens=512",
                config=UNHELD,
                work=Work(source=laboratory.trace(file), limit=REQUESTS, spread=Spread.RANDOM),
            )
            found = best_knee(laboratory, base, BASELINES, f"knee of {place}", low=2.0, high=8.0)
            for share in SHARES:
                work = replace(base.work, scale=share * found.scale)
                runs = {policy: replace(base, policy=policy, work=work) for policy in policies}
                results = laboratory.arms(runs, f"{place} at {share:.0%} of the knee")
                ttft_s = {policy: mean_ttft_s(each) for policy, each in results.items()}
                other_s = min(ttft_s[policy] for policy in BASELINES)
                (at_knee if share == 1.0 else elsewhere).append(ttft_s["cost"] / other_s - 1)
                if share == 1.0:
                    collapse.append(ttft_s[SELFISH] / ttft_s[PAIRS])
                    pairs.append(ttft_s[PAIRS] / other_s - 1)
                for policy, each in results.items():
                    arms[f"{place}, {share:.0%} of {found.scale:.2f}× ({found.policy}): {policy}"] = {
                        "vs_cost": ttft_s[policy] / ttft_s["cost"] - 1,
                        **figures(each),
                    }
    verdicts: list[Verdict] = [
        at_most("at the knee: mean TTFT of cost ÷ best other - 1, worst case", max(at_knee), -0.2),
        at_most("at the knee: the same, mean", sum(at_knee) / len(at_knee), -0.2),
        at_most("elsewhere: mean TTFT of cost ÷ best other - 1, worst case", max(elsewhere), 0.03),
        at_most("at the knee: the same of cost without local plans, mean", sum(pairs) / len(pairs), -0.2),
        at_least("at the knee: selfish pairs ÷ cost without local plans, mean", sum(collapse) / len(collapse), 1.5),
    ]
    return Report(
        name="knee",
        about="mean TTFT near the knee of the best baseline",
        seeds=laboratory.seeds,
        arms=arms,
        verdicts=verdicts,
    )
