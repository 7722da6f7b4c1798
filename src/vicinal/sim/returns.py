"""Clients that come back: a request that was refused is sent again, as another request of the same errand."""

import math
from dataclasses import dataclass

from vicinal.domain.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Returns:
    """A client sends at most `tries_max` requests for one errand, the next one after a retryable ending.

    One that `honours` the Retry-After waits that long, in whole seconds rounded up as the header has them; one that
    does not waits `pause_s`, and so does everybody whom no refusal tells a time.
    """

    tries_max: int = 4
    honours: bool = True
    pause_s: float = 0.5

    def wait_s(self, outcome: Outcome, tries: int) -> float | None:
        """Until the next try, after `tries` of them; None when there is none."""
        if tries >= self.tries_max or not outcome.ending.retryable:
            return None
        if self.honours and outcome.retry_after_s is not None:
            return float(math.ceil(outcome.retry_after_s))
        return self.pause_s
