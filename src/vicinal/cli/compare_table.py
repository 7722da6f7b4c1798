"""A comparison as a table: one row per policy and point, with how far each mean may be off."""

from collections.abc import Sequence

from rich.table import Table

from vicinal.observe.intervals import Interval
from vicinal.sim.comparison import Arm


def arms_table(arms: Sequence[Arm]) -> Table:
    """Means over seeds ± 95 % intervals. A sign in the difference says which is lower, bold that it is certain."""
    seeds = max((arm.seeds for arm in arms), default=0)
    table = Table(title=f"Means over {seeds} seeds", title_justify="left")
    swept = list(arms[0].point) if arms else []
    for key in swept:
        table.add_column(key)
    table.add_column("policy", overflow="fold", min_width=16)
    for name in ("TTFT mean ms", "vs first", "TTFT p99 ms", "TPOT p99 ms", "met", "goodput/s", "hits", "far GB"):
        table.add_column(name, justify="right")
    before: dict[str, str] | None = None
    for arm in arms:
        if before is not None and arm.point != before:
            table.add_section()
        table.add_row(
            *(arm.point[key] if arm.point != before else "" for key in swept),
            arm.policy + (f" [red]({arm.unstable} unstable)[/]" if arm.unstable else ""),
            _scaled(arm.ttft_mean_s, 1e3, 0),
            _difference(arm.ttft_vs_first),
            _scaled(arm.ttft_p99_s, 1e3, 0),
            _scaled(arm.tpot_p99_s, 1e3, 1),
            _scaled(arm.attainment, 100.0, 1, "%"),
            _scaled(arm.goodput, 1.0, 2),
            _scaled(arm.prefix_hit_rate, 100.0, 1, "%"),
            _scaled(arm.far_gbytes, 1.0, 0),
        )
        before = arm.point
    return table


def _scaled(value: Interval | None, factor: float, digits: int, unit: str = "") -> str:
    if value is None:
        return "–"
    half = "" if value.half_width is None else f" ±{value.half_width * factor:,.{digits}f}"
    return f"{value.mean * factor:,.{digits}f}{half}{unit}"


def _difference(value: Interval | None) -> str:
    if value is None:
        return ""
    words = f"{value.mean:+.1%}"
    return f"[bold]{words}[/]" if value.excludes_zero else words
