"""The posted price of prefill compute: what a second of it costs the others, in seconds.

Under first come, first served, work put in front of a server delays all that arrive while it is there; on average that
many as it finds waiting itself. So the price of one second is the mean number waiting per server, and by Little's law
that is mean queue wait over mean service. Greedy choice spends shared seconds of compute (cache misses) to save one
request's waiting, and is worst near the knee; paying this price cures it and costs nothing below
(references: the pricing experiment in docs/decisions/0002-prices.md).
"""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class PrefillPrice:
    """Means over a pool, decaying with time: an observation `age_s` old weighs exp(-age / horizon)."""

    horizon_s: float = 30.0
    _weight: float = 0.0
    _wait_sum_s: float = 0.0
    _service_sum_s: float = 0.0
    _updated_s: float = 0.0

    def observe(self, wait_s: float, service_s: float, now: float) -> None:
        """Take in one dispatch: the wait it is to meet, and the compute it takes."""
        fade = math.exp(-max(0.0, now - self._updated_s) / self.horizon_s)
        self._weight = self._weight * fade + 1.0
        self._wait_sum_s = self._wait_sum_s * fade + wait_s
        self._service_sum_s = self._service_sum_s * fade + service_s
        self._updated_s = now

    @property
    def seconds_per_second(self) -> float:
        """The price. Before anything was observed nobody waits, so nobody is delayed."""
        return self._wait_sum_s / self._service_sum_s if self._service_sum_s > 0.0 else 0.0

    @property
    def mean_service_s(self) -> float:
        return self._service_sum_s / self._weight if self._weight > 0.0 else 0.0
