"""A quantity over requests, in a few figures."""

from collections.abc import Iterable

import msgspec
import numpy as np


class Spread(msgspec.Struct, frozen=True):
    """Mean and percentiles. All None when there is no value."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Percentiles interpolate linearly between values."""
        sample = np.fromiter(values, dtype=np.float64)
        if not sample.size:
            return cls()
        return cls(float(sample.mean()), *(float(q) for q in np.percentile(sample, (50, 90, 99))))


class Tails(msgspec.Struct, frozen=True):
    """Median and p99. None when there is no value."""

    p50: float | None = None
    p99: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> "Tails":
        spread = Spread.of(values)
        return cls(spread.p50, spread.p99)
