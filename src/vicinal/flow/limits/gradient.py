"""`gradient`: so many predicted seconds may wait as take `start` seconds in truth.

    limit = start · mean of (predicted + slack) / (seen + slack)

An engine that takes twice as long as predicted may have half as many predicted seconds in its queue: whoever is sent
there waits as long as where predictions hold. The idea is that of the gradient limits of Netflix's concurrency-limits:
the ratio of the time that an answer should take to the time that it takes. There the limit is multiplied by the ratio
again and again, because the time without a queue is all they know, so that a shorter queue mends the ratio. Here the
queue is part of the prediction; a shorter one mends nothing, and the limit would fall to its least. So the ratio is
taken of `start`.
"""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from msgspec import Meta

from vicinal.flow.limits.bounds import Floats, check_bounds, resized, used

Positive = Annotated[float, Meta(gt=0)]


@dataclass(slots=True)
class Gradient:
    """`gain` is the weight of one answer in the mean. `slack` is what a leg takes beside its prefill, in seconds, so
    that a short prompt that is a few milliseconds late does not count as one that took three times as long.

    A limit that is not used may fall and does not rise. A failed leg counts as an
    answer that says that half of it would be right.
    """

    name: str = "gradient"
    start: Positive = 1.0
    least: Positive = 0.25
    most: Positive = 4.0
    gain: Annotated[float, Meta(gt=0, le=1)] = 0.25
    slack: Annotated[float, Meta(gt=0)] = 0.05
    limit_s: Floats = field(init=False, default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        check_bounds(self.least, self.start, self.most)

    def resize(self, slots: int) -> None:
        self.limit_s = resized(self.limit_s, slots, self.start)

    def forget(self, slot: int) -> None:
        self.limit_s[slot] = self.start

    def observe(self, slot: int, wait_s: float, predicted_s: float, seen_s: float, now: float) -> None:
        ratio = (max(predicted_s, 0.0) + self.slack) / (max(seen_s, 0.0) + self.slack)
        if self.start * ratio <= self.limit_s[slot] or used(self.limit_s, slot, wait_s):
            self._move(slot, self.start * ratio)

    def failed(self, slot: int, seen_s: float, now: float) -> None:
        self._move(slot, self.limit_s[slot] / 2.0)

    def _move(self, slot: int, aim_s: float) -> None:
        """By `gain` of the way to `aim_s`, where the limit would be if all answers were like this one; never to beyond
        the bounds, so that who was at one for long comes back from it as fast as from anywhere."""
        aim_s = min(max(aim_s, self.least), self.most)
        self.limit_s[slot] += self.gain * (aim_s - self.limit_s[slot])
