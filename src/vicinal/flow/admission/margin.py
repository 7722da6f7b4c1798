"""How much of the time that a newcomer could wait it must have left by the forecast.

Where more come than can be served, whoever is let in is let in just in time, and a forecast that is right on average
makes half of those late by a little. How wide the margin has to be depends on what is served; so it is steered by what
came of those that were let in: it grows when one is late and shrinks when one is in time, at rates at which one in
twenty is late (a Robbins-Monro estimate of that quantile).
"""

from dataclasses import dataclass

GAIN = 0.05
LATE_SHARE = 0.05
SHARE_MAX = 0.9


@dataclass(slots=True)
class Margin:
    """`share` of the wait that its patience leaves room for beside its own prefill; so patient classes and impatient
    ones learn from each other, and nobody is refused by a fleet that is idle."""

    share: float = 0.0

    def observe(self, *, late: bool) -> None:
        """One that was let in had its first token: too late or in time."""
        self.share = min(max(self.share + GAIN * (late - LATE_SHARE), 0.0), SHARE_MAX)
