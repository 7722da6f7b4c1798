"""The completed requests of a run as columns: one entry per request, in order of completion."""

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Figures = NDArray[np.float64]


def _floats() -> "array[float]":
    return array("d")


@dataclass(slots=True)
class Completed:
    """Times are virtual seconds: `sent_s` is when its first leg left the scheduler, the others are stamps of engines.
    `asked_s` is when its errand began: the arrival, unless it was refused before. `party` indexes `parties`."""

    arrived_s: "array[float]" = field(default_factory=_floats)
    asked_s: "array[float]" = field(default_factory=_floats)
    sent_s: "array[float]" = field(default_factory=_floats)
    first_s: "array[float]" = field(default_factory=_floats)
    done_s: "array[float]" = field(default_factory=_floats)
    slowdown: "array[float]" = field(default_factory=_floats)
    prompt_tokens: "array[float]" = field(default_factory=_floats)
    cached_tokens: "array[float]" = field(default_factory=_floats)
    output_tokens: "array[float]" = field(default_factory=_floats)
    good: "array[float]" = field(default_factory=_floats)
    party: "array[int]" = field(default_factory=lambda: array("i"))
    parties: "Parties" = field(default_factory=lambda: Parties())

    def __len__(self) -> int:
        return len(self.arrived_s)

    def column(self, name: str) -> Figures:
        """One of the figures, as an array of shape (requests,)."""
        return np.array(getattr(self, name), dtype=np.float64)

    @property
    def ttft_s(self) -> Figures:
        return self.column("first_s") - self.column("arrived_s")


@dataclass(slots=True)
class Parties:
    """Who sends: pairs of tenant and class of service, numbered as they come."""

    numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, tenant: str, service: str) -> int:
        return self.numbers.setdefault((tenant, service), len(self.numbers))

    def tenants(self) -> dict[str, list[int]]:
        """The numbers of each tenant."""
        return self._by(0)

    def services(self) -> dict[str, list[int]]:
        """The numbers of each class of service."""
        return self._by(1)

    def _by(self, which: int) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for pair, number in self.numbers.items():
            found.setdefault(pair[which], []).append(number)
        return found
