"""Means over seeds, with how far they may be off: Student's t at 95 %."""

from collections.abc import Sequence

import msgspec
import numpy as np

_T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Two-sided 95 % quantiles for 1 to 30 degrees of freedom."""
_T_MANY = 1.960


class Interval(msgspec.Struct, frozen=True):
    """A mean over `seeds` values; it is off by at most `half_width` 19 times of 20. None for a single value."""

    mean: float
    half_width: float | None
    seeds: int

    @property
    def excludes_zero(self) -> bool:
        return self.half_width is not None and abs(self.mean) > self.half_width


def interval(values: Sequence[float]) -> Interval:
    """Of at least one value."""
    count = len(values)
    mean = float(np.mean(values))
    if count < 2:
        return Interval(mean, None, count)
    freedom = count - 1
    t = _T_95[freedom - 1] if freedom <= len(_T_95) else _T_MANY
    return Interval(mean, t * float(np.std(values, ddof=1)) / count**0.5, count)


def paired(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The relative difference values ÷ others - 1, seed by seed: what the seeds have in common drops out."""
    return interval([value / other - 1 for value, other in zip(values, others, strict=True)])
