"""`vicinal simulate`: one policy on one workload, in virtual time."""

from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console

from vicinal.cli.run_options import WorkOptions, WorldOptions, run_of, tell_work
from vicinal.cli.run_progress import RunProgress
from vicinal.cli.run_tables import one_run
from vicinal.wiring.runs import execute


def simulate(
    *,
    policy: Annotated[str, Parameter(help="The rule that places requests; see docs/policies.md.")] = "cost",
    seed: Annotated[int, Parameter(help="Seed of every random choice.")] = 0,
    json: Annotated[bool, Parameter(help="Print the result as JSON, and nothing else.", negative="")] = False,
    work: WorkOptions | None = None,
    world: WorldOptions | None = None,
) -> None:
    """Run a workload through the scheduler over modelled engines and a modelled network, in seconds instead of hours.

    The scheduler is the one that serves live; engines run on measured figures with scatter, so it can be wrong. Try
    `vicinal simulate --trace conversation --cluster racks=4 --rate 20`.
    """
    run = run_of(work or WorkOptions(), world or WorldOptions(), policy, seed)
    tell_work(run)
    console = Console(stderr=json)
    with RunProgress(console) as progress:
        outcome = execute(run, progress.arrived)
    if json:
        print(msgspec.json.encode(outcome.result).decode())
    else:
        console.print(one_run(outcome.result))
