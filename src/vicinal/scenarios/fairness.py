"""`fairness`: what tenants get who all want more than there is.

Two tenants that always wait, one of which sends three times as much, and the same with weights: the difference of what
is sent off for them, over their weights, stays within the bound of the virtual token counter (Sheng et al., OSDI'24),
where a token of the prompt counts 1 and one of the answer 2. The paper's trace of 27 clients, on an engine as
small as theirs, against first come, first served. And what fairness costs where prefixes are shared: throughput
against the difference of service, for several bounds of the deficit that lets a cached prefix go first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vicinal.scenarios.fairness_of_clients import clients_of_trace
from vicinal.scenarios.fairness_of_sharers import shared_prefixes
from vicinal.scenarios.laboratory import TRUSTED, Laboratory
from vicinal.scenarios.over_time import Floats, service_gaps, timeline, widest_gap
from vicinal.scenarios.report import Figures, Report, ScenarioError, Verdict, at_least, at_most
from vicinal.sim.requests import Foresight
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work, arrivals
from vicinal.wiring.simulated import Physics

CLUSTER = "racks=1,prefill=2,decode=2,block_tokens=64"
PROMPT_TOKENS, OUTPUT_TOKENS = 12_000, 128
BACKLOGGED = (
    f"tenants:names=a/b,text_tokens={PROMPT_TOKENS},output_tokens={OUTPUT_TOKENS},text_sigma=0.3,rates={{a:g}}/{{b:g}}"
)
PATIENT = "[scheduler]\nqueue_max = 100000\nhold_s_max = 100000.0\n"
NOBODY = '[flow]\nfairness = "none"\n'
WEIGHTS = {"a": 1.0, "b": 3.0}
WEIGHED = TRUSTED + "".join(f'[[tenant]]\nname = "{name}"\nweight = {weight}\n' for name, weight in WEIGHTS.items())


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of the two experiments with made work."""

    backlogged_s: float = 120.0
    shared_s: float = 120.0
    window_s: float = 2.0


WHOLE = Size()
SMALL = Size(40.0, 40.0)


def fairness(laboratory: Laboratory) -> Report:
    """Service of backlogged tenants, VTC's trace against fcfs, and the price of fairness where prefixes are shared."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: Laboratory, size: Size) -> Report:
    """The same, shorter."""
    arms, verdicts = _backlogged(laboratory, size)
    notes: list[str] = []
    try:
        of_trace, more = clients_of_trace(laboratory, PATIENT, NOBODY)
        arms |= of_trace
        verdicts += more
    except ScenarioError as error:
        notes.append(f"The 27-client trace is left out: {error}.")
    shared, more, plot = shared_prefixes(laboratory, size.shared_s, PATIENT, NOBODY)
    arms |= shared
    verdicts += more
    return Report(
        name="fairness",
        about="service of tenants who all want more than there is, in weighted tokens",
        seeds=laboratory.seeds,
        arms=arms,
        verdicts=verdicts,
        notes=notes,
        plots=[plot],
    )


def _backlogged(laboratory: Laboratory, size: Size) -> tuple[dict[str, Figures], list[Verdict]]:
    physics = Physics(until_unstable=False, window_s=size.window_s, foresight=Foresight.KNOWN)
    work = Work(source=BACKLOGGED.format(a=4.0, b=12.0), duration_s=size.backlogged_s)
    configs = {
        "two backlogged, equal": PATIENT,
        "two backlogged, weights 1:3": PATIENT + WEIGHED,
        "two backlogged, fairness none": PATIENT + NOBODY,
    }
    runs = {name: Run(cluster=CLUSTER, config=config, work=work, physics=physics) for name, config in configs.items()}
    arms: dict[str, Figures] = {}
    verdicts: list[Verdict] = []
    for name, results in laboratory.arms(runs, "fairness, backlogged").items():
        weights = WEIGHTS if "1:3" in name else {}
        gaps = [widest_gap(_gaps(timeline(result).sent, weights, size)) for result in results]
        given = [widest_gap(_gaps(timeline(result).service, weights, size)) for result in results]
        bounds = [_bound(work, result.seed, weights) for result in results]
        worst = max(gap / bound for gap, bound in zip(gaps, bounds, strict=True))
        arms[name] = {
            "service_gap": max(gaps),
            "service_bound": min(bounds),
            "given_gap": max(given),
            "tokens_per_s": float(np.mean([_tokens_per_s(result, size) for result in results])),
        }
        if name.endswith("none"):
            verdicts.append(at_least(f"{name}: widest difference of service ÷ the bound", worst, 2.0))
        else:
            verdicts.append(at_most(f"{name}: widest difference of service ÷ the bound, worst seed", worst, 1.0))
    return arms, verdicts


def _gaps(service: Mapping[str, Sequence[float]], weights: Mapping[str, float], size: Size) -> Floats:
    """While both wait: after the first tenth, until the last arrival."""
    first, last = round(size.backlogged_s / 10 / size.window_s), round(size.backlogged_s / size.window_s)
    return service_gaps({name: values[first:last] for name, values in service.items()}, weights, "a", "b")


def _bound(work: Work, seed: int, weights: Mapping[str, float]) -> float:
    """2 · the largest request, over its sender's weight: whoever is served was not ahead, so nobody gets ahead by more
    than one request (VTC, theorem 4.4, where what is charged at a time is a whole request)."""
    return 2.0 * max(
        (one.prompt_tokens + 2 * one.output_tokens) / weights.get(str(one.tenant), 1.0) for one in arrivals(work, seed)
    )


def _tokens_per_s(result: Result, size: Size) -> float:
    seen = timeline(result)
    last = round(size.backlogged_s / seen.window_s)
    return sum(sum(values[:last]) for values in seen.service.values()) / size.backlogged_s
