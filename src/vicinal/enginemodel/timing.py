"""What a step costs, as a contract: the engine asks for seconds and does not know where they come from.

Two things satisfy it: `Fit` (enginemodel/fit.py), the formulas that the scheduler prices with, and `Grid`
(enginemodel/grid.py), what was measured. An engine that runs on a grid while the scheduler prices with a fit is an
engine that the scheduler can be wrong about.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

FOREVER = 1 << 62
"""More steps than anybody takes."""


class Chunk(NamedTuple):
    """Tokens `start` to `end` of one prompt; those before `start` have their KV already."""

    start: int
    end: int

    @property
    def tokens(self) -> int:
        return self.end - self.start

    @property
    def pairs(self) -> float:
        """About the number of query-key pairs that attention computes for these tokens."""
        return (self.end * self.end - self.start * self.start) / 2


class Piece(NamedTuple):
    """Decode steps of one batch in a row: the first takes `first_s`, each further one `growth_s` more than the last.

    That holds for `steps` of them; what comes after has to be asked for again. `growth_s` is never negative.
    """

    first_s: float
    growth_s: float
    steps: int = FOREVER

    def sum_s(self, steps: int) -> float:
        return steps * self.first_s + self.growth_s * steps * (steps - 1) / 2


class Timing(Protocol):
    """Seconds of an engine's steps. Pure: the same question has the same answer."""

    def decode(self, sequences: int, context_tokens: int) -> Piece:
        """Steps of `sequences` >= 1 sequences that only decode, with `context_tokens` in all of them together."""
        ...

    def mixed_s(self, chunks: Sequence[Chunk], sequences: int, context_tokens: int) -> float:
        """One step that computes at least one chunk, with `sequences` >= 0 decoding sequences beside it."""
        ...
