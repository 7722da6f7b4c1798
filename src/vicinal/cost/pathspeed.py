"""How fast each class of path really is, beside what its links promise.

A class is a level of the topology. Each transfer that is long enough to measure gives a ratio of seen to predicted
seconds; the class's factor follows it and decays back towards 1 when nothing is seen, so that a path that was avoided
is tried again. A silent fall-back (RDMA to TCP: 50 to 1 GB/s) shows within a few transfers as a factor far above 1.
"""

import math

import numpy as np
from numpy.typing import NDArray

from vicinal.topology.graph import Level


class PathSpeeds:
    """A factor of seconds per level; 1 means as fast as the links promise.

    Transfers predicted below `least_s` are not learned from: their time is all latency and scheduling.
    """

    def __init__(self, gain: float = 0.3, horizon_s: float = 120.0, least_s: float = 0.02, alarm: float = 3.0) -> None:
        self._gain = gain
        self._horizon_s = horizon_s
        self._least_s = least_s
        self._alarm = alarm
        self._log_factor = np.zeros(len(Level))
        self._updated_s = np.zeros(len(Level))

    def factors(self, now: float) -> NDArray[np.float64]:
        """Per level, as of `now`."""
        return np.exp(self._log_factor * np.exp(-np.maximum(now - self._updated_s, 0.0) / self._horizon_s))

    def observe(self, level: Level, predicted_s: float, seen_s: float, now: float, lag_s: float = 0.0) -> float | None:
        """Learn from a transfer. Returns the factor when it has just risen past the alarm, else None.

        `predicted_s` is what the links alone promised, without this factor. `lag_s` of `seen_s` are not the path's
        (cost/lag.py); what is shorter than that is not learned from. A ratio is learned in logarithms and within 1/4 to
        36, so that one odd transfer neither hides nor makes a fall-back.
        """
        if predicted_s < max(self._least_s, lag_s):
            return None
        before = float(self.factors(now)[level])
        ratio = min(max((seen_s - lag_s) / predicted_s, 0.25), 36.0)
        current = math.log(before)
        self._log_factor[level] = current + self._gain * (math.log(ratio) - current)
        self._updated_s[level] = now
        after = math.exp(float(self._log_factor[level]))
        return after if before < self._alarm <= after else None
