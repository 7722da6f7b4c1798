"""`vicinal bench`: how fast the hot paths are, as figures with their aims."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from vicinal.cli import bench_decide, bench_index, bench_simulate
from vicinal.cli.bench_decide import BenchFigure


class Subject(StrEnum):
    """What can be measured."""

    DECIDE = "decide"
    INDEX = "index"
    SIMULATE = "simulate"


def bench(
    subject: Annotated[Subject, Parameter(help="What to measure.")],
    *,
    trace: Annotated[Path | None, Parameter(help="For simulate: a Mooncake trace; made requests without.")] = None,
    json: Annotated[bool, Parameter(help="Print JSON, and nothing else.", negative="")] = False,
) -> None:
    """Measure a hot path on this machine, one core. Other work on the machine shows in the figures."""
    match subject:
        case Subject.DECIDE:
            figures = bench_decide.figures()
        case Subject.INDEX:
            figures = bench_index.figures()
        case Subject.SIMULATE:
            figures = bench_simulate.figures(trace)
    if json:
        print(msgspec.json.encode({"figures": figures}).decode())
    else:
        Console().print(_table(subject, figures))


def _table(subject: Subject, figures: list[BenchFigure]) -> Table:
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
