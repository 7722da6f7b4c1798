"""At which values a signal calls for which level: one table for endpoints and models.

A level is called for from its first threshold on, and no more below its second one: between the two it stays as it is.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.domain.pressure import PressureLevel, Signal

Ranks = NDArray[np.int8]


class Thresholds(Struct, frozen=True):
    """Each is (from, until); a level that a signal never calls for has infinite ones."""

    soft: tuple[float, float]
    hard: tuple[float, float]


NEVER = (np.inf, np.inf)

THRESHOLDS: Mapping[Signal, Thresholds] = MappingProxyType(
    {
        Signal.QUEUE: Thresholds(soft=(3.0, 1.5), hard=(10.0, 5.0)),
        Signal.HBM: Thresholds(soft=(0.90, 0.80), hard=(0.98, 0.92)),
        Signal.REPORT_AGE: Thresholds(soft=(3.0, 2.0), hard=(6.0, 4.0)),
        Signal.EVENT_LAG: Thresholds(soft=(2.0, 1.0), hard=(10.0, 5.0)),
        Signal.TTFT: Thresholds(soft=(0.2, 0.1), hard=(0.5, 0.3)),
        Signal.COPY_QUEUE: Thresholds(soft=(10.0, 5.0), hard=NEVER),
        Signal.REMOTE_READ: Thresholds(soft=(1.0, 0.5), hard=(5.0, 2.5)),
    }
)

SIGNALS = tuple(Signal)
"""The order of the rows in every array of values."""


def _column(level: PressureLevel, which: int) -> NDArray[np.float64]:
    rows = [
        (THRESHOLDS[signal].soft if level is PressureLevel.SOFT else THRESHOLDS[signal].hard)[which]
        for signal in SIGNALS
    ]
    return np.array(rows)[:, None]


_SOFT_FROM, _HARD_FROM = _column(PressureLevel.SOFT, 0), _column(PressureLevel.HARD, 0)
_SOFT_UNTIL, _HARD_UNTIL = _column(PressureLevel.SOFT, 1), _column(PressureLevel.HARD, 1)


def called_for(values: NDArray[np.float64]) -> tuple[Ranks, Ranks]:
    """Of `values`, (signals, things), NaN where unknown: the ranks of the levels that each calls for, and that it keeps
    up where they are. An unknown signal calls for nothing, which says nothing about the others."""
    calls = (values >= _SOFT_FROM).astype(np.int8) + (values >= _HARD_FROM)
    keeps = (values >= _SOFT_UNTIL).astype(np.int8) + (values >= _HARD_UNTIL)
    return calls, keeps
