"""The mean of a correlated sequence with its standard error, sharpened by what is known to have another mean.

Batch means: the sequence is cut into stretches that are long against its correlation, whose means are then nearly
independent. A control variate is a sequence on the same requests whose mean is known exactly; what the batches' means
have in common with its error is taken out by regression (Lavenberg & Welch, Management Science 27(3), 1981).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.theory.queues import Floats, Sample

BATCHES = 40
SPREAD = 4.0
"""Standard errors that an estimate may be off: by chance in fewer than one of ten thousand tests."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`error` is one standard error of `mean`."""

    mean: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.mean - SPREAD * self.error, self.mean + SPREAD * self.error

    def agrees_with(self, value: float, value_error: float = 0.0) -> bool:
        return abs(self.mean - value) <= SPREAD * float(np.hypot(self.error, value_error))


@dataclass(frozen=True, slots=True)
class Control:
    """A sequence alongside, and its true mean."""

    values: Floats
    mean: float


def estimate(values: Floats, controls: Sequence[Control] = (), warm_up: float = 0.05) -> Estimate:
    """`warm_up` is the share at the beginning that is left out, because the system starts empty."""
    first = int(len(values) * warm_up)
    batches = _batches(values[first:])
    known = np.array([_batches(control.values[first:]) - control.mean for control in controls]).reshape(-1, BATCHES)
    design = np.vstack([np.ones(BATCHES), known]).T
    solution = np.linalg.lstsq(design, batches, rcond=None)[0]
    residual = batches - design @ solution
    variance = float(residual @ residual) / (BATCHES - design.shape[1])
    return Estimate(float(solution[0]), float(np.sqrt(variance * np.linalg.pinv(design.T @ design)[0, 0])))


def inputs(sample: Sample, rate_per_s: float) -> list[Control]:
    """Times between arrivals and times of service as controls: their means are known."""
    return [Control(np.diff(sample.at_s, prepend=0.0), 1 / rate_per_s), Control(sample.service_s, 1.0)]


def _batches(values: Floats) -> Floats:
    size = len(values) // BATCHES
    return np.asarray(values[: size * BATCHES].reshape(BATCHES, size).mean(axis=1))
