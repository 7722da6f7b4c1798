"""`aimd`: additive increase, multiplicative decrease, as TCP finds its share of a link.

An answer that comes more than `slack` seconds later than predicted, and a leg that fails, cut the limit to a part of
itself; one in time, from a queue that was long enough to tell, adds a little. Lateness grows with what waits in front,
so the limit settles, up and down like a saw, where answers are about `slack` late.
"""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from msgspec import Meta

from vicinal.flow.limits.bounds import Floats, check_bounds, resized, used

Positive = Annotated[float, Meta(gt=0)]


@dataclass(slots=True)
class Aimd:
    """`step` is added, in seconds; the limit is multiplied by `cut`, once for all that were sent before the cut: what
    was under way then does not tell what the cut has done."""

    name: str = "aimd"
    start: Positive = 1.0
    least: Positive = 0.25
    most: Positive = 4.0
    step: Positive = 0.1
    cut: Annotated[float, Meta(gt=0, lt=1)] = 0.7
    slack: Positive = 0.5
    limit_s: Floats = field(init=False, default_factory=lambda: np.zeros(0))
    _cut_at_s: Floats = field(init=False, default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        check_bounds(self.least, self.start, self.most)

    def resize(self, slots: int) -> None:
        self.limit_s = resized(self.limit_s, slots, self.start)
        self._cut_at_s = resized(self._cut_at_s, slots, -np.inf)

    def forget(self, slot: int) -> None:
        self.limit_s[slot], self._cut_at_s[slot] = self.start, -np.inf

    def observe(self, slot: int, wait_s: float, predicted_s: float, seen_s: float, now: float) -> None:
        if seen_s - predicted_s > self.slack:
            self._shrink(slot, seen_s, now)
        elif used(self.limit_s, slot, wait_s):
            self.limit_s[slot] = min(self.limit_s[slot] + self.step, self.most)

    def failed(self, slot: int, seen_s: float, now: float) -> None:
        self._shrink(slot, seen_s, now)

    def _shrink(self, slot: int, seen_s: float, now: float) -> None:
        if now - seen_s >= self._cut_at_s[slot]:
            self.limit_s[slot] = max(self.limit_s[slot] * self.cut, self.least)
            self._cut_at_s[slot] = now
