"""Real steps scatter around any timing: a seeded factor for the durations of an engine.

The factor is drawn anew whenever the batch changes: for every step with chunks, and for every stretch of decode steps
of the same sequences. It is not drawn per decode step: what single steps scatter averages out over an answer, and one
draw per token would make a leap cost as much as its steps. So `sigma` is how far whole batches scatter.
"""

from math import cos, exp, log, pi, sqrt

from vicinal.domain.chance import Stream


class Noise:
    """Lognormal factors with mean 1. `sigma` is the standard deviation of their logarithm; 0 draws nothing."""

    def __init__(self, sigma: float, stream: Stream) -> None:
        if not sigma >= 0.0:
            raise ValueError(f"sigma is {sigma}; it must be 0 or more")
        self._sigma = sigma
        self._stream = stream

    def factor(self) -> float:
        if not self._sigma:
            return 1.0
        # Box and Muller 1958. 1 - u is in (0, 1], so the logarithm exists.
        normal = sqrt(-2.0 * log(1.0 - self._stream.random())) * cos(2.0 * pi * self._stream.random())
        return exp(self._sigma * normal - self._sigma * self._sigma / 2.0)
