"""Model time: the monotonic clock from an origin, times a speed.

The monotonic clock is one for all processes of a machine, so a gateway and an emulator in two processes share one model
time when they share the origin. Over real engines the speed is 1, and model seconds are seconds.
"""

import time


class ModelClock:
    """`speed` model seconds pass per wall second. Without an `origin_s` (monotonic seconds) model time begins now."""

    def __init__(self, speed: float = 1.0, origin_s: float | None = None) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self.speed = speed
        self.origin_s = time.monotonic() if origin_s is None else origin_s

    def now(self) -> float:
        """Model seconds since the origin."""
        return (time.monotonic() - self.origin_s) * self.speed

    def wall_delay(self, model_s: float) -> float:
        """Wall seconds from now until model second `model_s`; 0 when it is past."""
        return max(0.0, (model_s - self.now()) / self.speed)

    def model_s(self, wall_s: float) -> float:
        """The model's length of a span of wall time."""
        return wall_s * self.speed
