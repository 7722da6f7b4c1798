"""`prices`: what happens past the knee to a choice that is best for each request by itself.

A pair chosen for the smallest own TTFT spends prefill seconds (cache misses) to save one request's waiting. Below the
knee nobody notices; past it those seconds are what everybody waits for. The same joint choice with a posted price on
them does not. Five times the rate of Mooncake's conversation trace, on four racks.
"""

from vicinal.scenarios.figures import figures, mean_ttft_s
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Report, Verdict, at_least
from vicinal.scenarios.unheld import UNHELD
from vicinal.wiring.runs import Run, Work
from vicinal.workload.spread import Spread

TRACE = "mooncake/conversation_trace.jsonl"
SCALE = 5.0
REQUESTS = 2_500
SELFISH, PAIRS, WHOLE = "selfish", "cost:local=no", "cost"
BASELINES = (
    "prefill_then_decode:prefill=ttft+decode=transfer",
    "prefill_then_decode:prefill=lmetric+decode=transfer",
)


def prices(laboratory: Laboratory) -> Report:
    """Joint choice with and without prices, past the knee, on two networks."""
    runs = {
        f"{ratio}:1: {policy}": Run(
            cluster=f"racks=4,oversubscription={ratio},block_tokens=512",
            policy=policy,
            config=UNHELD,
            work=Work(source=laboratory.trace(TRACE), limit=REQUESTS, scale=SCALE, spread=Spread.RANDOM),
        )
        for ratio in (1, 8)
        for policy in (SELFISH, PAIRS, WHOLE, *BASELINES)
    }
    results = laboratory.arms(runs, "prices")
    ttft_s = {name: mean_ttft_s(each) for name, each in results.items()}
    verdicts: list[Verdict] = []
    for ratio in (1, 8):
        selfish_s, pairs_s, whole_s = (ttft_s[f"{ratio}:1: {policy}"] for policy in (SELFISH, PAIRS, WHOLE))
        best_s = min(ttft_s[f"{ratio}:1: {policy}"] for policy in BASELINES)
        verdicts += [
            at_least(f"{ratio}:1: mean TTFT of selfish pairs ÷ that of priced pairs", selfish_s / pairs_s, 1.2),
            at_least(f"{ratio}:1: mean TTFT of selfish pairs ÷ cost", selfish_s / whole_s, 2.0),
            at_least(f"{ratio}:1: mean TTFT of the better baseline ÷ cost", best_s / whole_s, 1.25),
            at_least(f"{ratio}:1: mean TTFT of the better baseline ÷ priced pairs", best_s / pairs_s, 1.0),
        ]
    return Report(
        name="prices",
        about="mean TTFT at five times the conversation trace's rate, past the knee",
        seeds=laboratory.seeds,
        arms={name: figures(each) for name, each in results.items()},
        verdicts=verdicts,
    )
