"""`fixed`: the same seconds for every engine, whatever happens."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from msgspec import Meta

from vicinal.flow.limits.bounds import Floats, resized


@dataclass(slots=True)
class Fixed:
    name: str = "fixed"
    seconds: Annotated[float, Meta(gt=0)] = 1.0
    limit_s: Floats = field(init=False, default_factory=lambda: np.zeros(0))

    def resize(self, slots: int) -> None:
        self.limit_s = resized(self.limit_s, slots, self.seconds)

    def forget(self, slot: int) -> None:
        """Nothing was learned."""

    def observe(self, slot: int, wait_s: float, predicted_s: float, seen_s: float, now: float) -> None:
        """Teaches nothing."""

    def failed(self, slot: int, seen_s: float, now: float) -> None:
        """Teaches nothing."""
