"""Whether two samples may be of one distribution: the test of Kolmogorov and Smirnov, and how quantiles compare.

The statistic is the largest distance between the two empirical distribution functions. Two samples of n and m
independent values of one distribution are farther apart than c(α) √((n + m) ÷ (n m)), c(α) = √(-ln(α ÷ 2) ÷ 2), in a
share α of cases (Smirnov 1948, asymptotic; a little too patient with small samples).
"""

from collections.abc import Sequence
from math import log, sqrt

import msgspec
import numpy as np

ALPHA = 0.01
QUANTILES = (0.5, 0.9, 0.99)


class TwoSamples(msgspec.Struct, frozen=True):
    """`distance` is above `critical` in a share `ALPHA` of cases where both are of one distribution. `ratios` are the
    first sample's mean and p50, p90, p99 over the second's; None over nothing."""

    sizes: tuple[int, int]
    distance: float
    critical: float
    mean_ratio: float | None
    ratios: tuple[float | None, ...]

    @property
    def agree(self) -> bool:
        return self.distance <= self.critical


def two_samples(values: Sequence[float], others: Sequence[float], alpha: float = ALPHA) -> TwoSamples:
    """Compare two samples. Raises ValueError when one is empty."""
    if not len(values) or not len(others):
        raise ValueError(f"samples of {len(values)} and {len(others)} values: a comparison needs some of both")
    first, second = np.sort(np.asarray(values, dtype=np.float64)), np.sort(np.asarray(others, dtype=np.float64))
    n, m = len(first), len(second)
    both = np.concatenate((first, second))
    shares = np.searchsorted(first, both, side="right") / n - np.searchsorted(second, both, side="right") / m
    return TwoSamples(
        (n, m),
        float(np.abs(shares).max()),
        sqrt(-log(alpha / 2) / 2) * sqrt((n + m) / (n * m)),
        _ratio(float(first.mean()), float(second.mean())),
        tuple(_ratio(float(np.quantile(first, q)), float(np.quantile(second, q))) for q in QUANTILES),
    )


def _ratio(value: float, other: float) -> float | None:
    return value / other if other else None
