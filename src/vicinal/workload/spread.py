"""How the requests of one stamp are spaced, for traces whose clock has coarse steps."""

import itertools
from enum import StrEnum
from statistics import median


class Spread(StrEnum):
    """How requests with one stamp are spaced."""

    AS_STAMPED = "as_stamped"
    UNIFORM = "uniform"


def spread_uniformly(stamps_s: list[float]) -> list[float]:
    """Ascending stamps with the k-th of n equal ones moved by k/n of a step.

    A step lasts until the next stamp, but no longer than the usual (median) one, so that a pause stays a pause.
    """
    distinct = sorted(set(stamps_s))
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(distinct)]
    usual_s = median(gaps_s) if gaps_s else 0.0
    width_s = dict(zip(distinct, [*(min(gap, usual_s) for gap in gaps_s), usual_s], strict=True)) if distinct else {}
    count = dict.fromkeys(distinct, 0)
    for stamp in stamps_s:
        count[stamp] += 1
    seen = dict.fromkeys(distinct, 0)
    spread_s = []
    for stamp in stamps_s:
        spread_s.append(stamp + width_s[stamp] * seen[stamp] / count[stamp])
        seen[stamp] += 1
    return spread_s
