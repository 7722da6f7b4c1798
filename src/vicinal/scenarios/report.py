"""What a scenario comes to: figures by arm, and a verdict for each claim. The JSON of `vicinal scenario --json`."""

import msgspec

Figures = dict[str, float | int | str | None]
"""Of one arm, by name. None is Unknown."""


class ScenarioError(ValueError):
    """A scenario that cannot be run here; the text says what it needs."""


class Verdict(msgspec.Struct, frozen=True):
    """A claim, the figure that it rests on, the limit, and whether it holds."""

    claim: str
    value: float
    limit: str
    holds: bool


class Plot(msgspec.Struct, frozen=True):
    """Lines by label, each of points (x, y); a y that is Unknown is None. `marked` shows the points."""

    name: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float | None]]]
    marked: bool = False


class Report(msgspec.Struct, frozen=True):
    """`about` says what is compared, `arms` the figures by arm, `notes` what else must be known to read them."""

    name: str
    about: str
    seeds: int
    arms: dict[str, Figures]
    verdicts: list[Verdict]
    notes: list[str] = []
    plots: list[Plot] = []


def at_most(claim: str, value: float, limit: float) -> Verdict:
    return Verdict(claim, value, f"at most {limit:g}", value <= limit)


def at_least(claim: str, value: float, limit: float) -> Verdict:
    return Verdict(claim, value, f"at least {limit:g}", value >= limit)


def number(figures: Figures, name: str) -> float:
    """A figure that is known to be one."""
    value = figures[name]
    assert isinstance(value, float | int)
    return float(value)
