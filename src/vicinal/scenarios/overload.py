"""`overload`: twice as many requests as the fleet can serve, for ten minutes, and what is left of its goodput.

Capacity is the knee: the highest rate at which nine of ten requests meet both objectives. A usual load below it goes on
all the time; for ten minutes others come on top, so that together they are two knees. Clients that are refused do not
come back, or come back as they are told, or come back half a second later whatever they are told, four times at most.
Goodput counts each request from its own arrival.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from vicinal.observe.intervals import interval
from vicinal.scenarios.figures import figures
from vicinal.scenarios.knees import best_knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.over_time import goodput_between, recovery_s, timeline
from vicinal.scenarios.report import Figures, Plot, Report, Verdict, at_least, at_most, number
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics
from vicinal.workload.returns import ONCE, Returns

CLUSTER = "racks=1,prefill=2,decode=2,block_tokens=64"
SOURCE = "tenants:names=usual/others,text_tokens=12000,output_tokens=128"
USUAL = 0.7
"""The load before, during and after, as a share of the knee."""
TIMES = 2.0
CLIENTS = {
    "go away": ONCE,
    "honour Retry-After": Returns(tries_max=4),
    "come back at once": Returns(tries_max=4, honours=False, pause_s=0.5),
}


EARLY = '[flow]\nearly_rejection = "predicted"\n'
BARE = "overload, no early rejection"
KNEE, CONTROL = "at the knee", "the usual load alone"


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds before the overload, of it, and after it; and how many requests a search for the knee takes."""

    before_s: float = 60.0
    over_s: float = 600.0
    after_s: float = 60.0
    knee_requests: int = 400
    window_s: float = 2.0

    @property
    def end_s(self) -> float:
        return self.before_s + self.over_s

    @property
    def whole_s(self) -> float:
        return self.end_s + self.after_s


WHOLE = Size()
SMALL = Size(20.0, 60.0, 40.0, 200)


def overload(laboratory: Laboratory) -> Report:
    """Twice capacity for ten minutes: goodput, queues, reasons, recovery, and no retry storm."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: Laboratory, size: Size) -> Report:
    """The same, shorter."""
    alone = Run(
        cluster=CLUSTER,
        config=EARLY,
        work=Work(source="tenants:names=usual,text_tokens=12000,output_tokens=128,rates=1", limit=size.knee_requests),
    )
    knee = best_knee(laboratory, alone, ("cost",), "knee", low=0.5, high=16.0).scale
    steady = replace(
        alone,
        work=Work(source=_source(knee, 0.0, size), duration_s=size.whole_s),
        physics=Physics(until_unstable=False, window_s=size.window_s),
    )
    over = replace(steady, work=Work(source=_source(USUAL * knee, TIMES * knee, size), duration_s=size.whole_s))
    runs = {KNEE: steady} | {
        f"overload, clients {name}": replace(over, physics=replace(over.physics, returns=returns))
        for name, returns in CLIENTS.items()
    }
    runs[BARE] = replace(over, config="")
    runs[CONTROL] = replace(steady, work=Work(source=_source(USUAL * knee, 0.0, size), duration_s=size.whole_s))
    results = laboratory.arms(runs, "overload")
    arms = {name: _figures(each, results, size) for name, each in results.items()}
    verdicts: list[Verdict] = []
    for name in CLIENTS:
        arm = f"overload, clients {name}"
        verdicts += _verdicts(arm, arms[arm], sum(result.unreasoned for result in results[arm]))
    verdicts.append(
        at_most(f"{BARE}: goodput ÷ that at the knee", number(arms[BARE], "goodput_kept"), 0.8),
    )
    return Report(
        name="overload",
        about=f"{TIMES:g}× capacity for {size.over_s:.0f} s; capacity is the knee, {knee:.2f} requests/s",
        seeds=laboratory.seeds,
        arms=arms,
        verdicts=verdicts,
        notes=[
            "Goodput is taken while the overload lasts, but for its first 30 s, and compared with that of the same "
            "seconds of a run at the knee. *Recovered* is when every later stretch of 10 s has nine tenths of the good "
            "arrivals of a run of the same requests without the overload."
        ],
        plots=[_plot(results, size)],
    )


def _source(usual: float, together: float, size: Size) -> str:
    if not together:
        return f"tenants:names=usual,text_tokens=12000,output_tokens=128,rates={usual:.6g}"
    return f"{SOURCE},rates={usual:.6g}/{together - usual:.6g},from_s=0/{size.before_s:g},for_s=0/{size.over_s:g}"


def _goodput(result: Result, size: Size) -> float:
    settled_s = size.before_s + min(30.0, size.over_s / 3)
    return goodput_between(result, settled_s, size.end_s)


def _requests_per_errand(result: Result) -> float:
    return result.requests / result.errands.errands if result.errands else 1.0


def _figures(results: Sequence[Result], all_of_them: Mapping[str, Sequence[Result]], size: Size) -> Figures:
    pairs = zip(results, all_of_them[KNEE], all_of_them[CONTROL], strict=True)
    kept, back_s = [], []
    for result, knee, control in pairs:
        kept.append(_goodput(result, size) / _goodput(knee, size))
        back_s.append(recovery_s(result, control, size.end_s, size.whole_s))
    found = interval(kept)
    return {
        "goodput_kept": found.mean,
        "goodput_kept_half_width": found.half_width,
        "recovered_s": max(back_s),
        "held_most": max(max(timeline(result).held) for result in results),
        "kept_most": max(max(timeline(result).kept) for result in results),
        "requests_per_errand": float(np.mean([_requests_per_errand(result) for result in results])),
        "given_up": float(np.mean([result.errands.given_up if result.errands else result.shed for result in results])),
        **figures(results),
    }


def _verdicts(name: str, made: Figures, unreasoned: int) -> list[Verdict]:
    half = 0.0 if made["goodput_kept_half_width"] is None else number(made, "goodput_kept_half_width")
    return [
        at_least(f"{name}: goodput ÷ that at the knee", number(made, "goodput_kept"), 0.95),
        at_least(f"{name}: the same less its interval", number(made, "goodput_kept") - half, 0.9),
        at_most(f"{name}: seconds until recovered, worst seed", number(made, "recovered_s"), 10.0),
        at_most(f"{name}: requests held at most", number(made, "held_most"), 4096),
        at_most(f"{name}: refusals without a reason", unreasoned, 0),
        at_most(f"{name}: requests ÷ errands", number(made, "requests_per_errand"), 3.0),
    ]


def _plot(results: Mapping[str, Sequence[Result]], size: Size) -> Plot:
    """Goodput of the first seed, in stretches of 10 s."""
    lines: dict[str, list[tuple[float, float | None]]] = {
        name: [
            (float(at_s), goodput_between(each[0], at_s, at_s + 10.0))
            for at_s in np.arange(0.0, size.whole_s - 10, 10.0)
        ]
        for name, each in results.items()
    }
    return Plot("goodput", "s", "requests/s that met both objectives", lines)
