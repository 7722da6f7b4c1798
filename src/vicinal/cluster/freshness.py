"""What absence and age mean, decided here once for every signal that engines send.

A signal is Fresh while it is at most two heartbeats old, Stale up to ten, and Unknown after that or when it never came.
Unknown is never read as idle: an endpoint whose reports are Unknown takes no new work, and a figure that a report does
not carry is not used, rather than used as zero. Safety margins grow with age.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Freshness(StrEnum):
    FRESH = "fresh"
    STALE = "stale"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FreshnessRule:
    """Ages in heartbeats at which a signal turns Stale and Unknown, and the HBM margin that goes with age."""

    heartbeat_s: float = 1.0
    stale_heartbeats: float = 2.0
    unknown_heartbeats: float = 10.0
    margin_share: float = 0.02
    margin_share_per_heartbeat: float = 0.01

    def of(self, age_s: float) -> Freshness:
        """`age_s` is infinite for a signal that never came."""
        if age_s <= self.stale_heartbeats * self.heartbeat_s:
            return Freshness.FRESH
        if age_s <= self.unknown_heartbeats * self.heartbeat_s:
            return Freshness.STALE
        return Freshness.UNKNOWN

    def known(self, ages_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Per slot: the signal is not Unknown."""
        return ages_s <= self.unknown_heartbeats * self.heartbeat_s

    def hbm_margin_share(self, ages_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of an endpoint's KV space that is left alone because its last report is `ages_s` old."""
        late = np.maximum(ages_s / self.heartbeat_s - self.stale_heartbeats, 0.0)
        late = np.minimum(late, self.unknown_heartbeats)
        return self.margin_share + self.margin_share_per_heartbeat * late
