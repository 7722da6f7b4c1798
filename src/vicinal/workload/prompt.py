"""Prompts as recipes: which streams of random token ids, and how many ids of each.

A trace says that two prompts share blocks, not what is in them. So a block is a stream of ids drawn from a seed: equal
seeds are equal tokens, and distinct ones share nothing but by chance. A recipe is a few numbers where the prompt is
tens of thousands, so that a whole workload fits in memory and each prompt is made when it is sent.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TokenIds = NDArray[np.uint32]

TOKEN_BYTES = 4


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The ids that prompts are drawn from, uniformly: `first` <= id < `end`. Special tokens stay out of it."""

    first: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.end:
            raise ValueError(f"a vocabulary from {self.first} to {self.end} has no ids")

    @classmethod
    def without(cls, size: int, special_ids: Iterable[int]) -> "Vocabulary":
        """The longest run of ids below `size` that has no special id in it."""
        walls = [-1, *sorted({special for special in special_ids if 0 <= special < size}), size]
        return max((cls(a + 1, b) for a, b in itertools.pairwise(walls) if b - a > 1), key=len)

    def __len__(self) -> int:
        return self.end - self.first

    def draw(self, stream: int, tokens: int) -> TokenIds:
        """The first `tokens` ids of the stream seeded by `stream`."""
        return np.random.default_rng(stream).integers(self.first, self.end, size=tokens, dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class Piece:
    """`tokens` ids of `stream`, its first ones. Streams are named by numbers >= 0."""

    stream: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Literal:
    """Token ids as they are, packed little-endian uint32: for traces that have them."""

    packed: bytes

    @property
    def tokens(self) -> int:
        return len(self.packed) // TOKEN_BYTES


@dataclass(frozen=True, slots=True)
class Prompt:
    """Pieces one after the other."""

    pieces: tuple[Piece | Literal, ...]
    vocabulary: Vocabulary

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    def token_ids(self) -> TokenIds:
        """The ids, shape (tokens,). Made anew at each call."""
        if not self.pieces:
            return np.empty(0, dtype=np.uint32)
        return np.concatenate([self._ids(piece) for piece in self.pieces])

    def _ids(self, piece: Piece | Literal) -> TokenIds:
        if isinstance(piece, Literal):
            return np.frombuffer(piece.packed, dtype="<u4")
        return self.vocabulary.draw(piece.stream, piece.tokens)
