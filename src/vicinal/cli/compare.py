"""`vicinal compare`: several policies on the same workload, in virtual time, with the same seeds."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console

from vicinal.cli.compare_table import arms_table
from vicinal.cli.problems import UsageError
from vicinal.cli.run_options import WorkOptions, WorldOptions, run_of, tell_work
from vicinal.cli.run_plots import plot_comparison
from vicinal.cli.run_progress import RunProgress
from vicinal.sim.comparison import Arm, arm
from vicinal.wiring.core import check
from vicinal.wiring.parallel import Workers, cores
from vicinal.wiring.runs import cluster_of
from vicinal.wiring.simulated import Outcome
from vicinal.wiring.sweep import Planned, planned, read_sweep

SEEDS = 3


def compare(
    *,
    policies: Annotated[
        str, Parameter(help="Separated by commas; the first is what others are held against.")
    ] = "cost,affinity,least_loaded,static_groups,round_robin",
    seeds: Annotated[int, Parameter(help="Runs of each, with seeds from --seed on.")] = SEEDS,
    seed: Annotated[int, Parameter(help="The first seed.")] = 0,
    sweep: Annotated[
        list[str] | None,
        Parameter(help="KEY=VALUE,VALUE,… such as rate=5,10,20 or oversubscription=1,4; may be repeated."),
    ] = None,
    processes: Annotated[int | None, Parameter(help="Runs side by side; as many as there are cores.")] = None,
    json: Annotated[bool, Parameter(help="Print all results as JSON, and nothing else.", negative="")] = False,
    plot: Annotated[
        Path | None, Parameter(help="Draw TTFT curves, goodput and bytes to this file (PNG, SVG or PDF).")
    ] = None,
    work: WorkOptions | None = None,
    world: WorldOptions | None = None,
) -> None:
    """Run each policy on the same work with the same seeds, and say by how much they differ and how sure that is.

    With --sweep every policy runs at every combination of the values given. Try `vicinal compare --policies
    cost,least_loaded,round_robin --sweep oversubscription=1,8 --plot compare.png`.
    """
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names or seeds < 1:
        raise UsageError("compare needs at least one policy and one seed")
    if len(set(names)) < len(names):
        raise UsageError("a policy is named twice in --policies")
    base = run_of(work or WorkOptions(), world or WorldOptions(), names[0], seed)
    plans = planned(base, names, range(seed, seed + seeds), read_sweep(sweep or []))
    for plan in plans:
        check(cluster_of(plan.run))
    tell_work(base)
    console = Console(stderr=json)
    with RunProgress(console, len(plans)) as progress, Workers(min(processes or cores(), len(plans))) as workers:
        outcomes = workers.outcomes([plan.run for plan in plans], lambda place, _: progress.done(_words(plans[place])))
    arms = _arms(plans, outcomes, names)
    if plot is not None:
        plot_comparison(plot, plans, outcomes, arms)
    if json:
        runs = [_run(plan, outcome) for plan, outcome in zip(plans, outcomes, strict=True)]
        print(msgspec.json.encode({"runs": runs, "arms": arms}).decode())
    else:
        console.print(arms_table(arms))
        if plot is not None:
            console.print(f"Drawn to {plot}")


def _words(plan: Planned) -> str:
    point = "".join(f", {key} {value}" for key, value in plan.point.items())
    return f"{plan.run.policy}, seed {plan.run.seed}{point}"


def _run(plan: Planned, outcome: Outcome) -> dict[str, Any]:
    return {"point": plan.point, **msgspec.to_builtins(outcome.result)}


def _arms(plans: list[Planned], outcomes: list[Outcome], names: list[str]) -> list[Arm]:
    """One per policy and point, in the order of the plans; each is held against the first policy of its point."""
    results: dict[tuple[str, ...], list[Outcome]] = {}
    points: dict[tuple[str, ...], dict[str, str]] = {}
    for plan, outcome in zip(plans, outcomes, strict=True):
        place = tuple(plan.point.values())
        points[place] = plan.point
        results.setdefault((plan.run.policy, *place), []).append(outcome)
    arms = []
    for place, point in points.items():
        first = [outcome.result for outcome in results[(names[0], *place)]]
        for name in names:
            own = [outcome.result for outcome in results[(name, *place)]]
            arms.append(arm(name, point, own, None if name == names[0] else first))
    return arms
