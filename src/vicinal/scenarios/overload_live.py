"""`overload` on the embedded cluster: twice capacity for a minute, with clients who come back and who do not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vicinal.replay.summary import CLOCK_DEBT_MAX
from vicinal.scenarios.figures import figures
from vicinal.scenarios.knees import best_knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.live import Lived, LiveLaboratory, LiveRun, clock_debt, worth
from vicinal.scenarios.over_time import recovery_s
from vicinal.scenarios.overload import CLIENTS, EARLY, SOURCE, TIMES, USUAL
from vicinal.scenarios.report import Report, Verdict, at_least, at_most
from vicinal.wiring.parallel import Workers
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics, Truth

KNEE, ALONE = "live: at the knee", "live: the usual load alone"
CLUSTER = "racks=2,prefill=2,decode=2"
"""What the embedded cluster is, for the search for its knee in virtual time."""


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds before the overload, of it, and after it."""

    before_s: float = 20.0
    over_s: float = 60.0
    after_s: float = 30.0
    knee_requests: int = 300


WHOLE = Size()


def overload_live(laboratory: LiveLaboratory) -> Report:
    """Twice capacity for a minute, on emulated engines behind the real gateway."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: LiveLaboratory, size: Size) -> Report:
    """The same, shorter."""
    alone = "tenants:names=usual,text_tokens=12000,output_tokens=128"
    with Workers(1) as here:
        knee = best_knee(
            Laboratory(1, here, None, laboratory.say),
            Run(
                cluster=CLUSTER,
                config=EARLY,
                work=Work(source=f"{alone},rates=1", limit=size.knee_requests),
                physics=Physics(truth=Truth.FIT, noise=0.0),
            ),
            ("cost",),
            "knee",
            low=1.0,
            high=32.0,
        ).scale
    end_s = size.before_s + size.over_s
    whole_s = end_s + size.after_s
    settled_s = size.before_s + min(10.0, size.over_s / 3)
    rates = f"{USUAL * knee:.6g}/{(TIMES - USUAL) * knee:.6g}"
    pressed = f"{SOURCE},rates={rates},from_s=0/{size.before_s:g},for_s=0/{size.over_s:g}"
    runs = {
        KNEE: LiveRun(work=f"{alone},rates={knee:.6g}", duration_s=whole_s, config=EARLY),
        ALONE: LiveRun(work=f"{alone},rates={USUAL * knee:.6g}", duration_s=whole_s, config=EARLY),
    } | {
        f"live: overload, clients {name}": LiveRun(work=pressed, duration_s=whole_s, config=EARLY, returns=returns)
        for name, returns in CLIENTS.items()
    }
    arms = laboratory.arms(runs, "overload, live")
    usual = _good_per_s(arms[KNEE], size.before_s, end_s)
    verdicts: list[Verdict] = []
    for name, each in arms.items():
        if name in (KNEE, ALONE):
            continue
        back = max(
            recovery_s(one.result, control.result, end_s, whole_s)
            for one, control in zip(each, arms[ALONE], strict=True)
        )
        verdicts += [
            at_least(f"{name}: goodput ÷ that at the knee", _good_per_s(each, settled_s, end_s) / usual, 0.95),
            at_most(f"{name}: seconds until recovered, worst seed", back, 10.0),
            at_most(f"{name}: requests held at most", max(one.held_most for one in each), 4096),
            at_most(f"{name}: refusals without a reason", sum(one.result.unreasoned for one in each), 0),
            at_most(f"{name}: requests ÷ errands", _tries(each), 3.0),
        ]
    verdicts.append(at_most("clock debt of the emulated engines", clock_debt(arms), CLOCK_DEBT_MAX))
    return Report(
        name="overload",
        about=f"{TIMES:g}× capacity for {size.over_s:.0f} s on emulated engines; the knee is {knee:.2f} requests/s",
        seeds=laboratory.seeds,
        arms={
            name: {
                "goodput_kept": _good_per_s(each, settled_s, end_s) / usual,
                "held_most": max(one.held_most for one in each),
                "kept_most": max(one.kept_most for one in each),
                "requests_per_errand": _tries(each),
                "clock_debt": max(one.result.clock_debt for one in each),
                **figures([one.result for one in each]),
            }
            for name, each in arms.items()
        },
        verdicts=verdicts,
        notes=[worth(arms), "Goodput is of the requests that were due in those seconds."],
    )


def _good_per_s(each: Sequence[Lived], from_s: float, until_s: float) -> float:
    """Good requests per second of those due in a stretch; mean over seeds."""
    found = []
    for one in each:
        seen = one.result.timeline
        assert seen is not None
        good = sum(seen.good[round(from_s / seen.window_s) : round(until_s / seen.window_s)])
        found.append(good / (until_s - from_s))
    return float(np.mean(found))


def _tries(each: Sequence[Lived]) -> float:
    errands = [one.result.errands for one in each]
    return float(np.mean([1.0 if found is None else found.requests / found.errands for found in errands]))
