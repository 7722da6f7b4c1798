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


def least_loaded_whole(table: Table, chance: Stream) -> Choice:
    """Of the endpoints that may serve a whole request, the one with the fewest outstanding tokens of both phases."""
    loads = table.local_outstanding_tokens
    j = pick(table.usable_local, loads, chance=chance)
    return Choice(table.local_row, j, f"fewest outstanding tokens: {loads[j]:.0f}")
