"""`mooncake_fig5`: how much a choice of the prefill endpoint is worth on Mooncake's conversation trace.

Figure 5 of the paper (Qin et al., FAST'25) gives mean TTFTs of 19.65 s for random choice, 5.27 s for the least loaded,
3.58 s for the smallest predicted TTFT with what is cached locally, and 3.07 s when prefixes may be fetched from other
nodes; Llama-3-70B on A800 nodes of 8, caches of 3 M tokens each, 4 × 200 Gb/s of network. The paper does not say how
many prefill nodes the figure has, so it is run with several, and ordering and ratios are what is compared. The fourth
policy is left out: no engine can be told to fetch a prefix yet.
"""

from vicinal.scenarios.figures import figures, mean_ttft_s
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Report, Verdict, at_least
from vicinal.scenarios.unheld import UNHELD
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics
from vicinal.workload.spread import Spread

PAPER_S = {"random": 19.65, "least_loaded": 5.27, "mooncake": 3.58}
"""Mean TTFT of the figure, by our name of the policy."""
PREFILLS = (5, 6, 8)
TRACE = "mooncake/conversation_trace.jsonl"


def mooncake_fig5(laboratory: Laboratory) -> Report:
    """Three of the figure's policies, with 5, 6 and 8 prefill endpoints."""
    work = Work(source=laboratory.trace(TRACE), spread=Spread.RANDOM)
    runs = {
        f"{policy}, {prefills} prefill": Run(
            cluster=f"racks=1,prefill={prefills},decode=8,oversubscription=1,profile=llama-3.1-70b-a100-tp8-vllm,"
            "kv_tokens=3000000,nic_gbytes_per_s=100,block_tokens=512",
            policy=policy,
            config=UNHELD,
            work=work,
            physics=Physics(until_unstable=False),
        )
        for prefills in PREFILLS
        for policy in PAPER_S
    }
    results = laboratory.arms(runs, "Mooncake's figure 5")
    ttft_s = {name: mean_ttft_s(each) for name, each in results.items()}
    verdicts: list[Verdict] = []
    for prefills in PREFILLS:
        random_s, load_s, local_s = (ttft_s[f"{policy}, {prefills} prefill"] for policy in PAPER_S)
        verdicts += [
            at_least(f"{prefills} prefill: random ÷ least loaded (paper: 3.73)", random_s / load_s, 2.0),
            at_least(f"{prefills} prefill: least loaded ÷ cache-aware (paper: 1.47)", load_s / local_s, 1.2),
        ]
    return Report(
        name="mooncake_fig5",
        about="mean TTFT on the conversation trace by choice of the prefill endpoint",
        seeds=laboratory.seeds,
        arms={name: {"paper_ttft_s": PAPER_S[name.split(",")[0]], **figures(each)} for name, each in results.items()},
        verdicts=verdicts,
        notes=[
            "Global cache-aware choice (3.07 s in the paper) is left out: no engine can be told to fetch a prefix from "
            "another node yet.",
        ],
    )
