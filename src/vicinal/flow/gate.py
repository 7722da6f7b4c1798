"""Whether engines have enough to do already: then work waits here, where its turn can still be chosen.

An endpoint is saturated when prefill work sent to it now would wait for its `limit_s` or longer in the engine's own
queue, because of what we sent there before. What strangers sent does not count: it is not ours to wait for, and a fleet
that others keep busy would leave nothing for us. Work is held while everybody it could prefill on is saturated. As long
as one is not, the choice is free, also of a saturated one: waiting there may be worth its price.
"""

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.ledger import Ledger
from vicinal.cluster.view import View

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

RESOLUTION_S = 1e-3
"""An alarm is not set closer than this: a wait that is at its limit but for rounding would ring for ever."""


def all_saturated(entry: Mask, view: View, limit_s: Floats) -> bool:
    """`entry` are the slots on which the work could prefill, at least one."""
    return not np.count_nonzero(entry & (view.own_wait_prefill_s < limit_s))


def opens_s(entry: Mask, view: View, limit_s: Floats, ledger: Ledger) -> float | None:
    """When time alone will make one of these saturated slots take more. None where something must end first: a wait
    shrinks by itself only while the engine is believed to work on the head of its queue."""
    now = view.now_s
    over_s = view.own_wait_prefill_s - limit_s
    head_left_s = ledger.head_compute_s - np.minimum(now - ledger.head_started_s, ledger.head_compute_s)
    soon = entry & (over_s < head_left_s)
    if not np.count_nonzero(soon):
        return None
    return now + max(float(over_s[soon].min()), 0.0) + RESOLUTION_S


def least_wait_s(entry: Mask, view: View) -> float:
    """The shortest queue among these slots, in seconds; infinite where there are none."""
    return float(np.min(view.own_wait_prefill_s, where=entry, initial=np.inf))
