"""Chance is an argument. The core draws from a stream that its driver seeds and hands in, so a run can be replayed."""

from typing import Protocol


class Stream(Protocol):
    """A seeded source of randomness. `numpy.random.Generator` satisfies it through `vicinal.wiring`."""

    def random(self) -> float:
        """The next number, uniform in [0, 1)."""
        ...
