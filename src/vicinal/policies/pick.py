"""Choosing among endpoints by a key, ties by the next key, then by chance: what the simpler policies are made of."""

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.chance import Stream


def pick(allowed: NDArray[np.bool_], *keys: NDArray[np.float64], chance: Stream) -> int:
    """The allowed position with the smallest first key; equals are told apart by the next key, then drawn.

    At least one position must be allowed.
    """
    left = np.flatnonzero(allowed)
    for key in keys:
        values = key[left]
        left = left[values == values.min()]
    return int(left[int(chance.random() * len(left))])
