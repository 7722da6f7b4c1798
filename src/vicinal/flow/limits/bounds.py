"""What the limits that learn have in common: bounds, and when a queue was long enough to say that more may wait."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

USED_SHARE = 0.5
"""A limit is used when at least this share of it was ahead of the leg: what was never tried may not grow."""


def check_bounds(least: float, start: float, most: float) -> None:
    """Raise ValueError unless the limit begins within its bounds."""
    if not least <= start <= most:
        raise ValueError(f"least <= start <= most is not so for {least:g}, {start:g}, {most:g}")


def used(limit_s: Floats, slot: int, wait_s: float) -> bool:
    return bool(wait_s >= USED_SHARE * limit_s[slot])


def resized(values: Floats, slots: int, newcomer: float) -> Floats:
    """`values` of a fleet that has `slots` now."""
    return np.append(values, np.full(slots - len(values), newcomer))
