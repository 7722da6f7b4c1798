"""Results of an arm's seeds as the figures of a report."""

from collections.abc import Sequence

import numpy as np

from vicinal.observe.intervals import Interval, interval, paired
from vicinal.scenarios.report import Figures
from vicinal.sim.comparison import far_bytes
from vicinal.sim.result import Result


def mean_ttft_s(results: Sequence[Result]) -> float:
    """Mean over seeds; infinite where a run was unstable or nobody was served: no finite figure describes it."""
    values = [
        result.ttft_s.mean if result.unstable is None and result.ttft_s.mean is not None else float("inf")
        for result in results
    ]
    return float(np.mean(values))


def attainment(results: Sequence[Result]) -> float:
    """Share of requests that met both objectives; none in a run that was ended as unstable."""
    return float(np.mean([0.0 if r.unstable is not None else r.attainment or 0.0 for r in results]))


def ttft_interval(results: Sequence[Result]) -> Interval | None:
    """None when any run was unstable."""
    if any(result.unstable is not None or result.ttft_s.mean is None for result in results):
        return None
    return interval([result.ttft_s.mean or 0.0 for result in results])


def relative_ttft(results: Sequence[Result], to: Sequence[Result]) -> Interval | None:
    """Mean TTFT ÷ that of `to` - 1, seed by seed. None when any run was unstable."""
    if ttft_interval(results) is None or ttft_interval(to) is None:
        return None
    return paired([r.ttft_s.mean or 0.0 for r in results], [r.ttft_s.mean or 0.0 for r in to])


def figures(results: Sequence[Result]) -> Figures:
    """The usual ones: times in seconds, means over seeds."""
    ttft = ttft_interval(results)
    return {
        "ttft_mean_s": None if ttft is None else ttft.mean,
        "ttft_half_width_s": None if ttft is None else ttft.half_width,
        "ttft_p99_s": _mean([result.ttft_s.p99 for result in results]),
        "tpot_p99_s": _mean([result.tpot_s.p99 for result in results]),
        "attainment": attainment(results),
        "goodput": _mean([result.goodput for result in results]),
        "prefix_hit_rate": _mean([result.prefix_hit_rate for result in results]),
        "far_gbytes": float(np.mean([far_bytes(result) / 1e9 for result in results])),
        "unstable": sum(result.unstable is not None for result in results),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
