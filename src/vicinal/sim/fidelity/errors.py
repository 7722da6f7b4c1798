"""How far predictions are off, in three figures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Errors:
    """Of predicted / measured - 1: the median and the 90th percentile of its size, and the median with its sign."""

    number: int
    median: float
    p90: float
    bias: float


def errors_of(relative: Sequence[float]) -> Errors:
    off = np.array(relative)
    return Errors(len(off), float(np.median(abs(off))), float(np.quantile(abs(off), 0.9)), float(np.median(off)))
