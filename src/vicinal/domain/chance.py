"""Chance is an argument. The core draws from a stream that its driver seeds and hands in, so a run can be replayed."""

from math import log
from typing import Final, Protocol


class Stream(Protocol):
    """A seeded source of randomness. `numpy.random.Generator` satisfies it through `vicinal.wiring`."""

    def random(self) -> float:
        """The next number, uniform in [0, 1)."""
        ...


class _NoChance:
    def random(self) -> float:
        return 0.0


NO_CHANCE: Final[Stream] = _NoChance()
"""Of equals the first: for what is looked at and not decided, which must leave the stream of the decisions alone."""


def exponential(mean: float, stream: Stream) -> float:
    """One draw, in the mean's unit, from the exponential distribution."""
    return -mean * log(1.0 - stream.random())
