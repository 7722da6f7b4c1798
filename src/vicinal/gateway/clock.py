"""The live clock in model seconds: the monotonic clock from an origin, times a speed."""

import time


class ModelClock:
    """`speed` model seconds pass per wall second. `origin_s` is the monotonic time of model second 0 (default: now)."""

    def __init__(self, speed: float = 1.0, origin_s: float | None = None) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, got {speed}")
        self.speed = speed
        self._origin_s = time.monotonic() if origin_s is None else origin_s

    def now(self) -> float:
        """Model seconds since the origin."""
        return (time.monotonic() - self._origin_s) * self.speed

    def wall_delay(self, model_s: float) -> float:
        """Wall seconds from now until model second `model_s`; 0 when it is past."""
        return max(0.0, (model_s - self.now()) / self.speed)
