"""VTC's trace of 27 clients (Sheng et al., OSDI'24) on an engine as small as theirs, by vtc and by fcfs.

The authors' measure of what each gets: in a window, how far each client is behind the one that got most, but no more
than it asked for and did not get; the sum over clients, averaged over time.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.over_time import Floats, timeline
from vicinal.scenarios.report import Figures, Verdict, at_least, at_most, number
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work, arrivals
from vicinal.wiring.simulated import Physics

TRACE = "vtc/real_trace.csv"
SMALL_ENGINE = "racks=1,prefill=0,decode=0,both=1,profile=llama-3.1-8b-a100-tp1-vllm,kv_tokens=10000"
"""The paper's pool of KV (10,000 tokens); its GPU (A10G) is slower, so the trace is sent faster."""
SCALE = 3.0
WINDOW_S = 60.0


def clients_of_trace(laboratory: Laboratory, patient: str, nobody: str) -> tuple[dict[str, Figures], list[Verdict]]:
    """Two arms; `patient` and `nobody` are pieces of configuration: nobody is refused, and no fairness. Raises
    ScenarioError without the trace."""
    work = Work(source=laboratory.trace(TRACE), scale=SCALE)
    physics = Physics(until_unstable=False, window_s=1.0)
    runs = {
        f"27 clients, {name}": Run(cluster=SMALL_ENGINE, config=patient + config, work=work, physics=physics)
        for name, config in {"vtc": "", "fcfs": nobody}.items()
    }
    results = laboratory.arms(runs, "fairness, trace")
    demand = _demand(work)
    arms: dict[str, Figures] = {}
    for name, each in results.items():
        differences = [_difference(timeline(result).service, demand) for result in each]
        arms[name] = {
            "difference_mean": float(np.mean([mean for mean, _ in differences])),
            "difference_max": float(np.max([most for _, most in differences])),
            "tokens_per_s": float(np.mean([_whole_tokens_per_s(result) for result in each])),
        }
    vtc, fcfs = (arms[f"27 clients, {name}"] for name in ("vtc", "fcfs"))
    return arms, [
        at_most(
            "27 clients: mean difference of service, vtc ÷ fcfs (paper: 252 ÷ 433 = 0.58)",
            number(vtc, "difference_mean") / number(fcfs, "difference_mean"),
            0.75,
        ),
        at_least(
            "27 clients: throughput, vtc ÷ fcfs (paper: 779 ÷ 777)",
            number(vtc, "tokens_per_s") / number(fcfs, "tokens_per_s"),
            0.97,
        ),
    ]


def _demand(work: Work) -> dict[str, Floats]:
    """Weighted tokens that each client asks for, per second of its arrival."""
    coming = list(arrivals(work, 0))
    demand = {str(one.tenant): np.zeros(int(coming[-1].at_s) + 1) for one in coming}
    for one in coming:
        demand[str(one.tenant)][int(one.at_s)] += one.prompt_tokens + 2 * one.output_tokens
    return demand


def _difference(service: Mapping[str, Sequence[float]], demand: Mapping[str, Floats]) -> tuple[float, float]:
    """Mean and maximum over time of how far clients are behind the one that got most in a window, as the paper has it:
    per client no more than it asked for and did not get. Rates, per second."""
    seconds = min(len(next(iter(demand.values()))), len(next(iter(service.values()))))
    width = int(WINDOW_S)
    kernel = np.ones(width) / width
    got = np.array([np.convolve(np.array(service[name])[:seconds], kernel, "valid") for name in service])
    asked = np.array([np.convolve(demand[name][:seconds], kernel, "valid") for name in service])
    behind = np.minimum(got.max(axis=0) - got, np.maximum(asked - got, 0.0)).sum(axis=0)
    return float(behind.mean()), float(behind.max())


def _whole_tokens_per_s(result: Result) -> float:
    tokens = sum(tenant.tokens for tenant in result.tenants.values())
    return tokens / result.duration_s if result.duration_s else 0.0
