"""Pictures of a comparison: how long first tokens take, how much is served well, and what moves where.

One row of panels per figure: TTFT as a cumulative curve (at the first point of a sweep), goodput against the first key
that was swept over numbers (else as bars), and KV bytes by level of the network.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vicinal.cli.problems import UsageError
from vicinal.sim.comparison import Arm
from vicinal.topology.graph import Level
from vicinal.wiring.simulated import Outcome
from vicinal.wiring.sweep import Planned

_LEVELS = [level.label for level in Level]
_SHADES = ("#dbe7f3", "#a9c7e4", "#6ea3d0", "#2f74b5", "#174a7c", "#999999")


def plot_comparison(path: Path, plans: Sequence[Planned], outcomes: Sequence[Outcome], arms: Sequence[Arm]) -> None:
    """Draw to `path`; its ending says the format. Raises UsageError without matplotlib and for unknown formats."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'vicinal[plots]'") from None
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    if path.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        known = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise UsageError(f"--plot {path}: no picture format {path.suffix!r}; known: {known}")
    curves, goodput, moved = figure.subplots(1, 3)
    point = arms[0].point
    here = [(p, o) for p, o in zip(plans, outcomes, strict=True) if p.point == point]
    _curves(curves, here, point)
    _goodput(goodput, arms)
    _moved(moved, here, point)
    figure.savefig(path, dpi=130)


def _curves(axes: Any, here: Sequence[tuple[Planned, Outcome]], point: dict[str, str]) -> None:
    """All seeds of a policy in its colour; the median of their quantiles as the line."""
    for name in dict.fromkeys(plan.run.policy for plan, _ in here):
        seeds = [o.ttft_quantiles_s for p, o in here if p.run.policy == name and o.ttft_quantiles_s]
        if seeds:
            quantiles = np.median(np.array(seeds), axis=0)
            axes.plot(np.maximum(quantiles, 1e-3), np.linspace(0, 1, len(quantiles)), label=name, linewidth=1.8)
    axes.set_xscale("log")
    axes.set_xlabel("TTFT (s)")
    axes.set_ylabel("share of requests")
    axes.set_title(f"Time to first token{_at(point)}", fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)


def _goodput(axes: Any, arms: Sequence[Arm]) -> None:
    key = next(
        (key for key in arms[0].point if len({arm.point[key] for arm in arms}) > 1 and _numbers(arms, key)), None
    )
    names = list(dict.fromkeys(arm.policy for arm in arms))
    axes.set_ylabel("requests/s that met both objectives")
    axes.set_title("Goodput", fontsize=11)
    axes.grid(alpha=0.25)
    if key is None:
        shown = [arm for arm in arms if arm.point == arms[0].point]
        axes.bar(
            range(len(shown)),
            [arm.goodput.mean if arm.goodput else 0.0 for arm in shown],
            yerr=[(arm.goodput.half_width or 0.0) if arm.goodput else 0.0 for arm in shown],
            color=[f"C{place}" for place in range(len(shown))],
            capsize=3,
        )
        axes.set_xticks(range(len(shown)), [arm.policy for arm in shown], rotation=30, ha="right", fontsize=8)
        return
    fixed = {name: value for name, value in arms[0].point.items() if name != key}
    for name in names:
        mine = [arm for arm in arms if arm.policy == name and arm.goodput and fixed.items() <= arm.point.items()]
        axes.errorbar(
            [float(arm.point[key]) for arm in mine],
            [arm.goodput.mean for arm in mine if arm.goodput],
            yerr=[arm.goodput.half_width or 0.0 for arm in mine if arm.goodput],
            marker="o",
            markersize=4,
            capsize=3,
            label=name,
        )
    axes.set_xlabel(key + _at(fixed))
    axes.legend(fontsize=8)


def _moved(axes: Any, here: Sequence[tuple[Planned, Outcome]], point: dict[str, str]) -> None:
    names = list(dict.fromkeys(plan.run.policy for plan, _ in here))
    bottom = np.zeros(len(names))
    for label, shade in zip(_LEVELS, _SHADES, strict=True):
        sizes = np.array(
            [np.mean([o.result.kv_bytes[label] for p, o in here if p.run.policy == name]) / 1e9 for name in names]
        )
        if sizes.any():
            axes.bar(range(len(names)), sizes, bottom=bottom, color=shade, label=label.replace("_", " "))
            bottom += sizes
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    axes.set_ylabel("KV moved (GB)")
    axes.set_title(f"Bytes by network level{_at(point)}", fontsize=11)
    if bottom.any():
        axes.legend(fontsize=8)


def _numbers(arms: Sequence[Arm], key: str) -> bool:
    try:
        return all(np.isfinite(float(arm.point[key])) for arm in arms)
    except ValueError:
        return False


def _at(point: dict[str, str]) -> str:
    return f" at {', '.join(f'{key} {value}' for key, value in point.items())}" if point else ""
