"""The posted price of prefill compute: what a second of it costs the others, in seconds.

Under first come, first served, work put in front of a server delays all that arrive while it is there; on average that
many as it finds waiting itself. So the price of one second is the mean number waiting per server, and by Little's law
that is mean queue wait over mean service. Greedy choice spends shared seconds of compute (cache misses) to save one
request's waiting, and is worst near the knee; paying this price cures it and costs nothing below
(docs/decisions/0002-prices.md).
"""

import math
from dataclasses import dataclass

SERVICE_GAIN = 0.02


@dataclass(slots=True)
class PrefillPrice:
    """The number waiting per server, averaged over time with weights that fade by exp(-age / horizon).

    The wait is the mean over the whole pool at one moment, not that of the server that was chosen: a policy that avoids
    queues would otherwise never see one. `mean_service_s` is over the latest prefills, about fifty of them.
    """

    horizon_s: float = 30.0
    mean_service_s: float = 0.0
    _waiting: float = 0.0
    _updated_s: float = -math.inf

    def posted(self, pool_wait_s: float, now: float) -> float:
        """Seconds per second, while a server of the pool makes newcomers wait for `pool_wait_s` on average.

        Before any prefill was seen nobody waits, so nobody is delayed.
        """
        if self.mean_service_s <= 0.0:
            return 0.0
        waiting = pool_wait_s / self.mean_service_s
        age_s = max(0.0, now - self._updated_s)
        return waiting + (self._waiting - waiting) * math.exp(-age_s / self.horizon_s)

    def observe(self, pool_wait_s: float, service_s: float, now: float) -> None:
        """A prefill of `service_s` is sent off, while the pool's mean wait is `pool_wait_s`."""
        gain = SERVICE_GAIN if self.mean_service_s > 0.0 else 1.0
        self.mean_service_s += gain * (service_s - self.mean_service_s)
        self._waiting = self.posted(pool_wait_s, now)
        self._updated_s = now
