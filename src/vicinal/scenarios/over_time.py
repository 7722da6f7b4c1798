"""Figures of a stretch of a run, from its timeline."""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from vicinal.sim.result import Result
from vicinal.sim.timeline import Timeline

Floats = NDArray[np.float64]


def timeline(result: Result) -> Timeline:
    """That of a run which was made with windows."""
    assert result.timeline is not None
    return result.timeline


def goodput_between(result: Result, from_s: float, until_s: float) -> float:
    """Requests per second that met both objectives, by the time of their last token."""
    seen = timeline(result)
    return sum(_part(seen.finished_good, seen.window_s, from_s, until_s)) / (until_s - from_s)


def share_good_between(result: Result, from_s: float, until_s: float) -> float:
    """The share of requests that arrived then which met both objectives; 1 where none arrived."""
    seen = timeline(result)
    arrived = sum(_part(seen.arrived, seen.window_s, from_s, until_s))
    return sum(_part(seen.good, seen.window_s, from_s, until_s)) / arrived if arrived else 1.0


def recovery_s(
    result: Result, control: Result, end_s: float, until_s: float, *, over_s: float = 10.0, share: float = 0.9
) -> float:
    """Seconds after `end_s` from which on every stretch of `over_s` that ends by `until_s` has at least `share` of the
    good arrivals that it has in `control`, a run of the same requests without what ended. Infinite when it never comes
    to that."""
    step_s = timeline(result).window_s
    starts_s = np.arange(end_s, until_s - over_s + step_s / 2, step_s)
    bad = [at_s for at_s in starts_s if _good(result, at_s, over_s) < share * _good(control, at_s, over_s)]
    if not bad:
        return 0.0
    return float(bad[-1]) + step_s - end_s if bad[-1] < starts_s[-1] else inf


def _good(result: Result, from_s: float, over_s: float) -> int:
    seen = timeline(result)
    return sum(_part(seen.good, seen.window_s, from_s, from_s + over_s))


def service_gaps(service: Mapping[str, Sequence[float]], weights: Mapping[str, float], one: str, other: str) -> Floats:
    """Service that `one` got less that of `other`, both over their weights, in sum up to each window's end."""
    ours, theirs = (np.array(service[name], dtype=np.float64) / weights.get(name, 1.0) for name in (one, other))
    return np.asarray(np.cumsum(ours - theirs), dtype=np.float64)


def widest_gap(gaps: Floats) -> float:
    """The most by which service between any two moments differs: the largest rise or fall."""
    from_start = np.concatenate([[0.0], gaps])
    return float(from_start.max() - from_start.min()) if len(gaps) else 0.0


def _part(values: Sequence[int], window_s: float, from_s: float, until_s: float) -> Sequence[int]:
    """Of whole windows."""
    return values[round(from_s / window_s) : round(until_s / window_s)]
