"""Clients that come back: a request that was refused is sent again, as another request of the same errand."""

import math

import msgspec


class Returns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client sends at most `tries_max` requests for one errand, the next one after a retryable ending.

    One that `honours` the Retry-After waits that long, in whole seconds rounded up as the header has them; one that
    does not waits `pause_s`, and so does everybody whom no refusal tells a time.
    """

    tries_max: int = 4
    honours: bool = True
    pause_s: float = 0.5

    def wait_s(self, told_s: float | None, tries: int) -> float | None:
        """Until the next try, after `tries` of them of which the last was told to wait `told_s` if anything; None when
        there is none."""
        if tries >= self.tries_max:
            return None
        return float(math.ceil(told_s)) if self.honours and told_s is not None else self.pause_s


ONCE = Returns(tries_max=1)
"""Nobody comes back."""
