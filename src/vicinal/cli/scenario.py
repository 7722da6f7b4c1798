"""`vicinal scenario`: a named experiment, its figures and its verdicts."""

import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from vicinal.cli.problems import UsageError
from vicinal.cli.run_progress import RunProgress
from vicinal.cli.scenario_plots import plot_report
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.live import LiveLaboratory
from vicinal.scenarios.markdown import markdown
from vicinal.scenarios.registry import SCENARIOS, live_scenario
from vicinal.scenarios.registry import scenario as named
from vicinal.scenarios.report import Figures, Report
from vicinal.wiring.parallel import Workers, cores

SEEDS = 3
SPEED = 1.0
TRACES = "VICINAL_TRACES"


def scenario(
    name: Annotated[str | None, Parameter(help="Which one.")] = None,
    *,
    listed: Annotated[bool, Parameter(name="--list", help="Say which there are.", negative="")] = False,
    seeds: Annotated[int, Parameter(help="Runs of each arm.")] = SEEDS,
    processes: Annotated[int | None, Parameter(help="Runs side by side; as many as there are cores.")] = None,
    traces: Annotated[
        Path | None, Parameter(help="Folder of the public traces (docs/workloads.md); else VICINAL_TRACES.")
    ] = None,
    live: Annotated[
        bool,
        Parameter(help="On emulated engines behind the real gateway instead of in virtual time.", negative=""),
    ] = False,
    speed: Annotated[float, Parameter(help="With --live: model seconds that pass in one second.")] = SPEED,
    plots: Annotated[Path | None, Parameter(help="Draw the report's plots into this folder.")] = None,
    json: Annotated[bool, Parameter(help="Print the report as JSON, and nothing else.", negative="")] = False,
    as_markdown: Annotated[
        bool, Parameter(name="--markdown", help="Print the report as a section of docs/results.md.", negative="")
    ] = False,
) -> None:
    """Run an experiment that backs a claim: with and without the thing claimed, the figures, and what holds.

    Equal seeds give equal figures. Exit code 1 says that some claim does not hold. Try `vicinal scenario --list`.
    """
    if listed or name is None:
        for each, run in SCENARIOS.items():
            print(f"{each:20} {(run.__doc__ or '').splitlines()[0]}")
        return
    if seeds < 1:
        raise UsageError("a scenario needs at least one seed")
    console = Console(stderr=json or as_markdown)
    if live:
        run_live = live_scenario(name)
        with RunProgress(console) as progress:
            report = run_live(LiveLaboratory(seeds, speed, progress.say))
    else:
        run = named(name)
        folder = traces or (Path(os.environ[TRACES]) if os.environ.get(TRACES) else None)
        with RunProgress(console) as progress, Workers(processes or cores()) as workers:
            report = run(Laboratory(seeds, workers, folder, progress.say))
    if plots is not None:
        for path in plot_report(plots, report):
            console.print(f"drawn: {path}")
    if json:
        print(msgspec.json.encode(report, enc_hook=float).decode())  # numpy's numbers are numbers
    elif as_markdown:
        print(markdown(report))
    else:
        console.print(_arms(report.arms, report.about))
        console.print(_verdicts(report))
        for note in report.notes:
            console.print(note)
    if not all(verdict.holds for verdict in report.verdicts):
        raise SystemExit(1)


def _arms(arms: dict[str, Figures], about: str) -> Table:
    table = Table(title=about, title_justify="left")
    table.add_column("arm", overflow="fold", min_width=24)
    names = list(dict.fromkeys(name for figures in arms.values() for name in figures))
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for arm, figures in arms.items():
        table.add_row(arm, *(_cell(figures.get(name)) for name in names))
    return table


def _verdicts(report: Report) -> Table:
    table = Table(title=f"{report.name}: verdicts over {report.seeds} seeds", title_justify="left")
    table.add_column("claim", overflow="fold", min_width=30)
    for name in ("value", "limit", "holds"):
        table.add_column(name, justify="right")
    for verdict in report.verdicts:
        table.add_row(
            verdict.claim, f"{verdict.value:.3g}", verdict.limit, "yes" if verdict.holds else "[bold red]no[/]"
        )
    return table


def _cell(value: float | int | str | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
