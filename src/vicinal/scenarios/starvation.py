"""`starvation`: batch work under interactive load that never lets up.

Bands are strict, so with more interactive work than the fleet can do the batch band would never have its turn. Aging
gives it a small share of the prefill seconds once it has waited for some of its patience, so that it finishes within
its longest wait (`wait_s_max`); without aging it does not. What that costs the interactive band is said beside it.

Such a load is hard pressure too, which refuses batch work when it arrives (docs/pressure.md). That is switched off in
both arms: what is asked here is what becomes of work that waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from vicinal.scenarios.figures import figures
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Figures, Report, at_least, at_most
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics

CLUSTER = "racks=1,prefill=2,decode=2,block_tokens=64"
SOURCE = (
    "tenants:names=people/jobs,services=interactive/batch,rates={people:g}/{jobs:g},text_tokens=12000,output_tokens=128"
)
KINDS = """
[[service]]
name = "interactive"
band = "interactive"
[[service]]
name = "batch"
band = "batch"
ttft_floor_s = {wait_s:g}
ttft_weight = 0.1
tpot_weight = 0.1
tpot_objective_s = 0.2
wait_s_max = {wait_s:g}
"""
ON_ARM, OFF_ARM = "aging", "no aging"
ON = "[flow]\npressure_sheds = false\n"
OFF = ON + "aged_share = 0.0\n"


@dataclass(frozen=True, slots=True)
class Size:
    """Interactive and batch requests per second, the longest wait of batch work, and seconds."""

    people: float = 9.0
    jobs: float = 0.2
    wait_s_max: float = 120.0
    seconds: float = 480.0


WHOLE = Size()
SMALL = Size(wait_s_max=30.0, seconds=90.0)


def starvation(laboratory: Laboratory) -> Report:
    """Batch work under full interactive load, with and without aging."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: Laboratory, size: Size) -> Report:
    """The same, shorter."""
    kinds = KINDS.format(wait_s=size.wait_s_max)
    run = Run(
        cluster=CLUSTER,
        config=kinds + ON,
        work=Work(source=SOURCE.format(people=size.people, jobs=size.jobs), duration_s=size.seconds),
        physics=Physics(until_unstable=False),
    )
    results = laboratory.arms({ON_ARM: run, OFF_ARM: replace(run, config=kinds + OFF)}, "starvation")
    on, off = results[ON_ARM], results[OFF_ARM]
    return Report(
        name="starvation",
        about=f"batch work beside {size.people:g} interactive requests/s, more than the fleet serves",
        seeds=laboratory.seeds,
        arms={name: _figures(each) for name, each in results.items()},
        verdicts=[
            at_least("with aging: share of batch requests served within their longest wait", _served(on), 1.0),
            at_most("with aging: longest usual wait (p99) ÷ the longest allowed", _wait_p99_s(on) / size.wait_s_max, 1),
            at_most("without aging: share of batch requests served", _served(off), 0.5),
            at_least("interactive requests answered with aging ÷ without", _answered(on) / _answered(off), 0.85),
            at_least("without aging: share of interactive requests refused (the load is full)", _refused(off), 0.05),
        ],
    )


def _served(results: Sequence[Result], kind: str = "batch") -> float:
    """Of those that ended; who never got one is not in `services` at all."""
    served = sum(result.services[kind].requests for result in results if kind in result.services)
    refused = sum(result.services[kind].refused for result in results if kind in result.services)
    return served / (served + refused) if served + refused else 0.0


def _refused(results: Sequence[Result]) -> float:
    return 1.0 - _served(results, "interactive")


def _answered(results: Sequence[Result]) -> int:
    return sum(result.services["interactive"].requests for result in results)


def _wait_p99_s(results: Sequence[Result]) -> float:
    return max(result.services["batch"].wait_s.p99 or 0.0 for result in results)


def _figures(results: Sequence[Result]) -> Figures:
    waits_s = [wait_s for result in results if (wait_s := result.services["batch"].wait_s.p99) is not None]
    return {
        "batch_served": _served(results),
        "batch_wait_p99_s": float(np.mean(waits_s)) if waits_s else None,
        "interactive_answered": _answered(results) / len(results),
        "interactive_p99_s": float(
            np.mean([result.services["interactive"].ttft_s.p99 or np.inf for result in results])
        ),
        **figures(results),
    }
