"""Whether requests pile up: past capacity a run has no result, only a length.

Who waits for a first token is counted every so many arrivals. In a stable system that number fluctuates around a mean;
past capacity it grows by (arrival rate - capacity) per second. The slope over the later half of the run so far tells
them apart, once there are enough to rule out a burst.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Unstable:
    """`waiting` requests had no first token at `at_s`, refused ones included, and they grew by `slope_per_s`, of the
    `rate_per_s` that arrived."""

    at_s: float
    waiting: int
    slope_per_s: float
    rate_per_s: float

    @property
    def words(self) -> str:
        return (
            f"the system is unstable: by {self.at_s:.0f} s {self.waiting} requests wait for a first token or "
            f"were turned away for want of room, {self.slope_per_s:.2f} more per second ({self.rate_per_s:.2f} arrive)"
        )


@dataclass(slots=True)
class Backlog:
    """Unstable means: at least `waiting_min` wait, after at least `arrivals_min` arrivals, and over the later half of
    the run, which lasted `span_s_min` or more, the number has grown by more than `growth` of the arrival rate, in its
    second part as in its first."""

    waiting_min: int
    arrivals_min: int = 1000
    growth: float = 0.05
    span_s_min: float = 30.0
    every: int = 64
    _seen: list[tuple[float, int, int]] = field(default_factory=list)

    def arrived(self, arrivals: int, waiting: int, now: float) -> Unstable | None:
        """Count one more arrival; says when it is one too many."""
        if arrivals % self.every:
            return None
        self._seen.append((now, arrivals, waiting))
        if arrivals < self.arrivals_min or waiting < self.waiting_min:
            return None
        half = np.array(self._seen[len(self._seen) // 2 :], dtype=np.float64)
        span_s = half[-1, 0] - half[0, 0]
        if span_s < self.span_s_min:
            return None
        rate_per_s = (half[-1, 1] - half[0, 1]) / span_s
        middle = len(half) // 2
        slopes = [_slope(half), _slope(half[:middle]), _slope(half[middle:])]
        if min(slopes) <= self.growth * rate_per_s:
            return None
        return Unstable(now, waiting, slopes[0], float(rate_per_s))


def _slope(seen: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> float:
    """Least squares of waiting over time; none where no time passes."""
    times = seen[:, 0] - seen[:, 0].mean()
    spread = float(times @ times)
    return float(times @ seen[:, 2]) / spread if spread else 0.0
