"""First tokens against their objectives: the share that came too late lately, per endpoint and per model.

Only requests count whose band hard pressure does not shed: it is them that shedding protects. One that was refused or
given up because its first token would have come too late has missed its objective too.
"""

import numpy as np

from vicinal.domain.ids import ModelId

GAIN = 0.05
"""The weight of one request in the exponential mean: about the last twenty count."""

SAMPLES_MIN = 10
"""Fewer tell nothing yet."""

KNOWN_S = 30.0
"""After so long without a request the share is unknown. An old one would keep up what it once called for: with nobody
admitted, nobody comes to change it."""


class MissedShares:
    """`by_slot` and `of_model` are NaN where unknown."""

    def __init__(self) -> None:
        self._share = np.zeros(0)
        self._samples = np.zeros(0)
        self._last_s = np.zeros(0)
        self._models: dict[ModelId, tuple[float, int, float]] = {}

    def resize(self, slots: int) -> None:
        more = slots - len(self._share)
        self._share = np.append(self._share, np.zeros(more))
        self._samples = np.append(self._samples, np.zeros(more))
        self._last_s = np.append(self._last_s, np.full(more, -np.inf))

    def forget(self, slot: int) -> None:
        self._share[slot] = self._samples[slot] = 0.0
        self._last_s[slot] = -np.inf

    def add(self, model: ModelId, slot: int | None, missed: bool, now: float) -> None:
        """A first token was seen; `slot` is who prefilled, None when nobody did."""
        share, samples, last_s = self._models.get(model, (0.0, 0, now))
        if now - last_s > KNOWN_S:
            share, samples = 0.0, 0
        self._models[model] = _joined(share, samples, missed), samples + 1, now
        if slot is not None:
            if now - self._last_s[slot] > KNOWN_S:
                self._share[slot] = self._samples[slot] = 0.0
            self._share[slot] = _joined(self._share[slot], self._samples[slot], missed)
            self._samples[slot] += 1
            self._last_s[slot] = now

    def by_slot(self, now: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        known = (self._samples >= SAMPLES_MIN) & (now - self._last_s <= KNOWN_S)
        return np.where(known, self._share, np.nan)

    def of_model(self, model: ModelId, now: float) -> float:
        share, samples, last_s = self._models.get(model, (0.0, 0, -np.inf))
        return share if samples >= SAMPLES_MIN and now - last_s <= KNOWN_S else np.nan


def _joined(share: float, samples: float, missed: bool) -> float:
    """The plain mean of the first few, then the exponential one."""
    return share + max(GAIN, 1.0 / (samples + 1.0)) * (missed - share)
