"""Signals that others measure and tell by `Measured`: what was said last, and whether that is still worth something."""

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.ids import EndpointId
from vicinal.domain.pressure import Signal

Floats = NDArray[np.float64]

KNOWN_S = 30.0
"""A measurement that is older is unknown: whoever measured may have stopped."""


class Measurements:
    """The last value of each signal, per endpoint and for all of them together."""

    def __init__(self) -> None:
        self._values: dict[tuple[Signal, EndpointId | None], tuple[float, float]] = {}

    def take(self, signal: Signal, endpoint: EndpointId | None, value: float | None, now: float) -> None:
        """None says that it is unknown from now on."""
        if value is None:
            self._values.pop((signal, endpoint), None)
        else:
            self._values[signal, endpoint] = value, now

    def forget(self, endpoint: EndpointId) -> None:
        for key in [key for key in self._values if key[1] == endpoint]:
            del self._values[key]

    def by_slot(self, signal: Signal, slots: dict[EndpointId, int], values: Floats, now: float) -> None:
        """Write what is known into `values`, per slot."""
        for (of, endpoint), (value, at_s) in self._values.items():
            if of is signal and endpoint is not None and now - at_s <= KNOWN_S and endpoint in slots:
                values[slots[endpoint]] = value

    def of_all(self, signal: Signal, now: float) -> float:
        """NaN where unknown."""
        value, at_s = self._values.get((signal, None), (np.nan, -np.inf))
        return value if now - at_s <= KNOWN_S else np.nan
