"""`vicinal bench`: how fast the hot paths are, as figures with their aims."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from vicinal.cli import bench_decide, bench_index, bench_simulate
from vicinal.cli.bench_decide import BenchFigure
from vicinal.cli.bench_gateway_command import gateway

app = App(
    name="bench",
    help="Measure a hot path on this machine. Other work on the machine shows in the figures.",
)
app.command(gateway)

Json = Annotated[bool, Parameter(name="--json", help="Print JSON, and nothing else.", negative="")]


@app.command
def decide(*, json: Json = False) -> None:
    """How long a decision takes, at 16, 128 and 1,024 endpoints, and what goes with it; one core."""
    _show("decide", bench_decide.figures(), json)


@app.command
def index(*, json: Json = False) -> None:
    """How fast the index is and how small; beside Dynamo's where VICINAL_DYNAMO_PYTHON names a Python that has it."""
    _show("index", bench_index.figures(), json)


@app.command
def simulate(
    *,
    trace: Annotated[Path | None, Parameter(help="A Mooncake trace; made requests without.")] = None,
    json: Json = False,
) -> None:
    """How fast a simulated fleet runs; beside Dynamo's where VICINAL_DYNAMO_PYTHON names a Python that has it."""
    _show("simulate", bench_simulate.figures(trace), json)


def _show(subject: str, figures: list[BenchFigure], json: bool) -> None:
    if json:
        print(msgspec.json.encode({"figures": figures}).decode())
    else:
        Console().print(_table(subject, figures))


def _table(subject: str, figures: list[BenchFigure]) -> Table:
    table = Table(title=f"vicinal bench {subject}", title_justify="left")
    table.add_column("figure")
    for name in ("value", "unit", "peer", "ratio", "aim", "holds"):
        table.add_column(name, justify="right")
    for figure in figures:
        holds = "" if figure.holds is None else ("yes" if figure.holds else "no")
        aim = "" if figure.aim is None else f"{figure.aim:,.0f}"
        peer = "" if figure.peer is None else f"{figure.peer:,.1f}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        table.add_row(figure.name, f"{figure.value:,.1f}", figure.unit, peer, ratio, aim, holds)
    return table
