"""How wrong forecasts are: what has to be added to one so that nearly all come out sooner.

Where more come than can be served, whoever is let in is let in just in time; half of those would be late by a little if
the forecast were merely right on average. So the mean error and four mean deviations are added, as TCP's retransmission
timer does with round trips (RFC 6298).
"""

from dataclasses import dataclass

GAIN = 0.05
DEVIATIONS = 4.0


@dataclass(slots=True)
class Margin:
    """Seconds. A forecast that was too late does not make the margin negative: it is a bound, not a guess."""

    _mean_s: float = 0.0
    _deviation_s: float = 0.0
    _seen: int = 0

    @property
    def seconds(self) -> float:
        return max(0.0, self._mean_s + DEVIATIONS * self._deviation_s)

    def observe(self, forecast_s: float, seen_s: float) -> None:
        error_s = seen_s - forecast_s
        self._seen += 1
        gain = max(GAIN, 1.0 / self._seen)
        self._deviation_s += gain * (abs(error_s - self._mean_s) * (self._seen > 1) - self._deviation_s)
        self._mean_s += gain * (error_s - self._mean_s)
