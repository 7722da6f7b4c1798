"""What fairness costs where prefixes are shared: each tenant has one long prefix, and not all fit the caches.

Whoever serves tenants in turn computes their prefixes over and over. The locality-aware rule lets a tenant whose prefix
is there go first, as long as it is not more than its deficit ahead (DLPM, Cao et al., arXiv 2501.14312): more is
answered, and service differs by more.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from vicinal.observe.intervals import interval
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.over_time import timeline
from vicinal.scenarios.report import Figures, Plot, Verdict, at_least, at_most, number
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics

CLUSTER = "racks=1,prefill=0,decode=0,both=2,kv_tokens=60000,block_tokens=64"
SOURCE = "tenants:names={names},prefixes=1,prefix_tokens=12000,text_tokens=600,output_tokens=32,rates={rate:g}"
SHARERS = 8
DEFICITS = (0, 8_192, 32_768, 131_072, 524_288)
WINDOW_S = 2.0


def shared_prefixes(
    laboratory: Laboratory, seconds: float, patient: str, nobody: str
) -> tuple[dict[str, Figures], list[Verdict], Plot]:
    """An arm per deficit, and vtc and no fairness; `patient` and `nobody` are pieces of configuration: nobody is
    refused, and no fairness."""
    names = "/".join(f"t{number}" for number in range(SHARERS))
    work = Work(source=SOURCE.format(names=names, rate=2.0), duration_s=seconds)
    physics = Physics(until_unstable=False, window_s=WINDOW_S)
    configs = {
        f"locality, {deficit:,}": f'[flow]\nfairness = "locality"\ndeficit_tokens = {deficit}.0\n'
        for deficit in DEFICITS
    }
    configs |= {"vtc": "", "none": nobody}
    runs = {
        f"shared prefixes, {name}": Run(cluster=CLUSTER, config=patient + config, work=work, physics=physics)
        for name, config in configs.items()
    }
    arms: dict[str, Figures] = {}
    lines: dict[str, list[tuple[float, float | None]]] = {"locality": [], "vtc": [], "none": []}
    for name, results in laboratory.arms(runs, "fairness, shared prefixes").items():
        gaps = interval([_widest(result, seconds) for result in results])
        answered = interval([_answered_per_s(result, seconds) for result in results])
        arms[name] = {
            "service_gap": gaps.mean,
            "answered_per_s": answered.mean,
            "prefix_hit_rate": float(np.mean([result.prefix_hit_rate or 0.0 for result in results])),
        }
        lines[name.removeprefix("shared prefixes, ").partition(",")[0]].append((gaps.mean, answered.mean))
    plot = Plot(
        "pareto", "widest difference of service (weighted computed tokens)", "answered requests/s", lines, marked=True
    )
    return arms, _pareto(arms), plot


def _widest(result: Result, seconds: float) -> float:
    """The widest difference in computed tokens of all pairs of tenants, while all wait."""
    seen = timeline(result)
    first, last = round(seconds / 10 / seen.window_s), round(seconds / seen.window_s)
    so_far = np.array([np.cumsum(values[first:last]) for values in seen.computed.values()])
    return float(np.max(so_far.max(axis=0) - so_far.min(axis=0)))


def _answered_per_s(result: Result, seconds: float) -> float:
    """First tokens of the time in which requests came."""
    seen = timeline(result)
    last = round(seconds / seen.window_s)
    tokens = sum(sum(values[:last]) for values in seen.service.values())
    return tokens / (12_000 + 600 * float(np.exp(0.125)) + 64 * float(np.exp(0.125))) / seconds


def _pareto(arms: Mapping[str, Figures]) -> list[Verdict]:
    vtc = arms["shared prefixes, vtc"]
    most = arms[f"shared prefixes, locality, {DEFICITS[-1]:,}"]
    least = arms[f"shared prefixes, locality, {DEFICITS[0]:,}"]
    rates = [number(arms[f"shared prefixes, locality, {deficit:,}"], "answered_per_s") for deficit in DEFICITS]
    return [
        at_least(
            f"shared prefixes: answered with a deficit of {DEFICITS[-1]:,} ÷ with vtc",
            number(most, "answered_per_s") / number(vtc, "answered_per_s"),
            1.2,
        ),
        at_least(
            "shared prefixes: answered never falls as the deficit grows (least step)",
            min(later / earlier for earlier, later in pairwise(rates)),
            0.97,
        ),
        at_most(
            "shared prefixes: difference of service with no deficit ÷ with the largest",
            number(least, "service_gap") / number(most, "service_gap"),
            0.8,
        ),
    ]
