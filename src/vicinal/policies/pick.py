"""Choosing among endpoints by a key, ties by the next key, then by chance: what the simpler policies are made of."""

import numpy as np
from numpy.typing import NDArray

from vicinal.contracts.policy import Choice
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream


def pick(allowed: NDArray[np.bool_], *keys: NDArray[np.float64], chance: Stream) -> int:
    """The allowed position with the smallest first key; equals are told apart by the next key, then drawn.

    At least one position must be allowed.
    """
    left = allowed.nonzero()[0]
    for key in keys:
        values = key[left]
        left = left[values == values[values.argmin()]]
    return int(left[int(chance.random() * len(left))])


def draw(weights: NDArray[np.float64], count: int, chance: Stream) -> NDArray[np.bool_]:
    """Up to `count` different positions, each drawn with a chance in proportion to its weight among those left.

    Positions of weight zero are never drawn.
    """
    left = weights.copy()
    drawn = np.zeros(len(weights), dtype=bool)
    for _ in range(min(count, int(np.count_nonzero(weights)))):
        sums = left.cumsum()
        # Rounding could make the product the whole sum, behind the last position.
        point = min(chance.random() * sums[-1], np.nextafter(sums[-1], 0.0))
        position = int(sums.searchsorted(point, side="right"))
        drawn[position] = True
        left[position] = 0.0
    return drawn


def least_loaded_whole(table: Table, chance: Stream) -> Choice:
    """Of the endpoints that may serve a whole request, the one with the fewest outstanding tokens of both phases."""
    loads = table.local_outstanding_tokens
    j = pick(table.usable_local, loads, chance=chance)
    return Choice(table.local_row, j, f"fewest outstanding tokens: {loads[j]:.0f}")
