"""How the requests of one stamp are spaced, for traces whose clock has coarse steps."""

import itertools
from collections import Counter
from enum import StrEnum
from statistics import median

import numpy as np


class Spread(StrEnum):
    """How requests with one stamp are spaced: not at all, evenly over the step, or at random over it."""

    AS_STAMPED = "as_stamped"
    UNIFORM = "uniform"
    RANDOM = "random"


def spread_out(stamps_s: list[float], spread: Spread, seed: int = 0) -> list[float]:
    """Ascending stamps, spaced; the order of requests stays. `seed` is for `RANDOM`.

    A step lasts until the next stamp, but no longer than the usual (median) one, so that a pause stays a pause.
    """
    if spread is Spread.AS_STAMPED or not stamps_s:
        return stamps_s
    count = Counter(stamps_s)
    distinct = sorted(count)
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(distinct)]
    usual_s = median(gaps_s) if gaps_s else 0.0
    stream = np.random.default_rng(seed)
    spaced_s: list[float] = []
    for stamp_s, gap_s in itertools.zip_longest(distinct, gaps_s, fillvalue=usual_s):
        width_s, number = min(gap_s, usual_s), count[stamp_s]
        shares = np.arange(number) / number if spread is Spread.UNIFORM else np.sort(stream.random(number))
        spaced_s += (stamp_s + width_s * shares).tolist()
    return spaced_s
