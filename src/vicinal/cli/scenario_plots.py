"""Pictures of a scenario: one per plot of its report."""

from pathlib import Path
from typing import Any

from vicinal.cli.problems import UsageError
from vicinal.scenarios.report import Plot, Report


def plot_report(folder: Path, report: Report) -> list[Path]:
    """Draw each plot to `folder` as NAME-PLOT.png, and say where. Raises UsageError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("--plots needs matplotlib: pip install 'vicinal[plots]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for plot in report.plots:
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        _draw(figure.subplots(), plot)
        paths.append(folder / f"{report.name}-{plot.name}.png")
        figure.savefig(paths[-1], dpi=130)
    return paths


def _draw(axes: Any, plot: Plot) -> None:
    for label, points in plot.lines.items():
        known = [(x, y) for x, y in points if y is not None]
        style: dict[str, Any] = {"marker": "o", "linestyle": "--"} if plot.marked else {"linewidth": 1.5}
        axes.plot([x for x, _ in known], [y for _, y in known], label=label, **style)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
