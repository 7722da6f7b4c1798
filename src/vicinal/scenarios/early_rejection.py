"""`early_rejection`: prefill and decode that swing against each other, and how a prediction calms them.

A prefill pool and a smaller decode pool, past capacity, with prompts that take a second. Who is refused at arrival by
how loaded the decode pool is *now* is judged by requests that came long before: while it is full nobody is let in, the
prefill pool runs dry, the decode pool empties, everybody is let in at once, and so on. Mooncake (Qin et al., FAST'25,
section 7) met this oscillation, and refuses by the load that is predicted for the time when the prefill will end.
Measured are the swing of both loads (standard deviation over mean) and how they go together (correlation).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vicinal.scenarios.figures import figures
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.over_time import Floats, goodput_between, timeline
from vicinal.scenarios.report import Figures, Plot, Report, at_least, at_most, number
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics

CLUSTER = "racks=1,prefill=4,decode=1,block_tokens=64"
SOURCE = "tenants:names=a,rates={rate:g},text_tokens=24000,text_sigma=0.2,output_tokens=400,output_sigma=0.3"
"""Four endpoints prefill 3.3 such prompts per second. The other one decodes about 16 at a time within the objective
below, for 6 s each: 2.7 per second. What prefills, and waits to within its objective of 5 s, is as many again."""
MODES = {"none": "none", "by current load": "current", "by prediction": "predicted"}
CONFIG = """
[[service]]
name = "interactive"
band = "interactive"
tpot_objective_s = 0.016
[flow]
early_rejection = "{mode}"
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Requests per second, seconds, and how many at the beginning do not count."""

    rate_per_s: float = 6.0
    seconds: float = 360.0
    warm_s: float = 60.0
    window_s: float = 1.0


WHOLE = Size()
SMALL = Size(seconds=120.0, warm_s=30.0)


def early_rejection(laboratory: Laboratory) -> Report:
    """The oscillation of prefill and decode load under rejection by current load, and by prediction."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: Laboratory, size: Size) -> Report:
    """The same, shorter."""
    runs = {
        name: Run(
            cluster=CLUSTER,
            config=CONFIG.format(mode=mode),
            policy="cost:local=no",
            work=Work(source=SOURCE.format(rate=size.rate_per_s), duration_s=size.seconds),
            physics=Physics(until_unstable=False, window_s=size.window_s),
        )
        for name, mode in MODES.items()
    }
    results = laboratory.arms(runs, "early rejection")
    arms = {name: _figures(each, size) for name, each in results.items()}
    now, then = arms["by current load"], arms["by prediction"]
    return Report(
        name="early_rejection",
        about=f"load of both pools at {size.rate_per_s:g} requests/s, past what they serve",
        seeds=laboratory.seeds,
        arms=arms,
        verdicts=[
            at_least(
                "swing of decode load, by current load ÷ by prediction",
                number(now, "decode_swing") / number(then, "decode_swing"),
                1.5,
            ),
            at_least(
                "swing of prefill load, by current load ÷ by prediction",
                number(now, "prefill_swing") / number(then, "prefill_swing"),
                1.2,
            ),
            at_most("by current load: correlation of the two loads (against each other)", number(now, "phase"), 0.0),
            at_least("goodput, by prediction ÷ by current load", number(then, "goodput") / number(now, "goodput"), 1.0),
        ],
        plots=[_plot(results, size)],
    )


def _loads(result: Result, size: Size) -> tuple[Floats, Floats]:
    seen = timeline(result)
    part = slice(round(size.warm_s / seen.window_s), round(size.seconds / seen.window_s))
    return np.array(seen.prefill_load[part]), np.array(seen.decode_load[part])


def _swing(load: Floats) -> float:
    return float(load.std() / load.mean()) if load.any() else 0.0


def _phase(prefill: Floats, decode: Floats) -> float:
    """Correlation, at the same time; 0 where one of them never changes."""
    return float(np.corrcoef(prefill, decode)[0, 1]) if prefill.std() and decode.std() else 0.0


def _figures(results: Sequence[Result], size: Size) -> Figures:
    loads = [_loads(result, size) for result in results]
    made = figures(results)
    return {
        "prefill_swing": float(np.mean([_swing(prefill) for prefill, _ in loads])),
        "decode_swing": float(np.mean([_swing(decode) for _, decode in loads])),
        "phase": float(np.mean([_phase(prefill, decode) for prefill, decode in loads])),
        "held_most": max(max(timeline(result).held) for result in results),
        **made,
        "goodput": float(np.mean([goodput_between(result, size.warm_s, size.seconds) for result in results])),
    }


def _plot(results: Mapping[str, Sequence[Result]], size: Size) -> Plot:
    """Both loads of the first seed."""
    lines: dict[str, list[tuple[float, float | None]]] = {}
    for name, each in results.items():
        seen = timeline(each[0])
        for role, load in (("prefill", seen.prefill_load), ("decode", seen.decode_load)):
            if name != "none":
                lines[f"{role}, {name}"] = [(at * size.window_s, value) for at, value in enumerate(load)]
    return Plot("loads", "s", "requests on an engine of that role", lines)
