"""Distributions of lengths and times, and choices among kinds. The random stream is handed in."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.workload.bounds import at_least, positive


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always `value`."""

    value: float

    def __post_init__(self) -> None:
        at_least(0, value=self.value)

    def draw(self, _stream: np.random.Generator) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential with this mean, for theory: rounded to whole tokens, of which there is at least one."""

    mean: float

    def __post_init__(self) -> None:
        positive(mean=self.mean)

    def draw(self, stream: np.random.Generator) -> float:
        return float(stream.exponential(self.mean))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lengths or times with this median; `sigma` is the standard deviation of the logarithm. Cut off at `most`."""

    median: float
    sigma: float
    most: float

    def __post_init__(self) -> None:
        positive(median=self.median, most=self.most)
        at_least(0, sigma=self.sigma)

    def draw(self, stream: np.random.Generator) -> float:
        return min(self.most, float(stream.lognormal(math.log(self.median), self.sigma)))


Lengths = Fixed | Exponential | Lognormal


def draw_tokens(lengths: Lengths, stream: np.random.Generator) -> int:
    """A whole number of tokens, at least one."""
    return max(1, round(lengths.draw(stream)))


def zipf(kinds: int, exponent: float = 1.0) -> Callable[[np.random.Generator], int]:
    """Draws a number below `kinds`; the k-th (from 1) with a probability proportional to 1/k^exponent."""
    below = zipf_shares(kinds, exponent).cumsum()
    below /= below[-1]
    return lambda stream: int(below.searchsorted(stream.random(), side="right"))


def zipf_shares(kinds: int, exponent: float = 1.0) -> NDArray[np.float64]:
    """The probabilities of `zipf`, shape (kinds,)."""
    weights = 1 / np.arange(1, kinds + 1, dtype=np.float64) ** exponent
    return np.asarray(weights / weights.sum(), dtype=np.float64)
