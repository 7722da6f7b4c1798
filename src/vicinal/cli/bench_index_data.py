"""What the index is measured with: made prompts as block hashes, and events about them for ours and for the peer.

An engine names a block by a number of its own; all engines give equal names here, as engines with equal settings do,
because the peer's index relies on that. Ours does not care.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.events import BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId

BLOCK_TOKENS = 16
ENGINE = EndpointId("bench")

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Chain:
    """Blocks in a row below `parent`, an engine's name or None for the root: our hashes, and what engines call them."""

    blocks: Hashes
    names: Hashes
    parent: int | None = None

    @classmethod
    def made(cls, rng: np.random.Generator, blocks: int, parent: int | None = None) -> "Chain":
        return cls(_hashes(rng, blocks), _hashes(rng, blocks), parent)

    def below(self, rng: np.random.Generator, blocks: int) -> "Chain":
        """New blocks that continue this chain."""
        return Chain.made(rng, blocks, int(self.names[-1]))

    def cut(self, size: int) -> "list[Chain]":
        """The same blocks as chains of at most `size`."""
        edges = [*range(0, len(self.blocks), size), len(self.blocks)]
        parents = [self.parent, *(int(self.names[at - 1]) for at in edges[1:-1])]
        return [
            Chain(self.blocks[start:stop], self.names[start:stop], parent)
            for (start, stop), parent in zip(pairwise(edges), parents, strict=True)
        ]

    def stored(self) -> BlocksStored:
        names = tuple(self.names.tolist())
        return BlocksStored(ENGINE, 0, 0, self.parent, names, b"", BLOCK_TOKENS, block_hashes=self.blocks.tobytes())

    def removed(self) -> BlocksRemoved:
        """All of them, last block first, as an engine frees a prompt."""
        return BlocksRemoved(ENGINE, 0, 0, tuple(self.names[::-1].tolist()))

    def stored_json(self) -> bytes:
        """The peer's event; its walk goes by `tokens_hash`, so these are the hashes that a match asks for."""
        pairs = zip(self.names.tolist(), self.blocks.tolist(), strict=True)
        blocks = [{"block_hash": name, "tokens_hash": block} for name, block in pairs]
        return _json({"stored": {"parent_hash": self.parent, "blocks": blocks}})

    def removed_json(self) -> bytes:
        return _json({"removed": {"block_hashes": self.names[::-1].tolist()}})


@dataclass(frozen=True, slots=True)
class Population:
    """Prompts of `blocks` blocks: the first `shared` of each are the same and are held by every endpoint, the rest is a
    prompt's own and is on `HOLDERS` endpoints."""

    HOLDERS = 2

    endpoints: int
    shared: Chain
    own: Sequence[Chain]
    places: Sequence[Sequence[int]]

    @classmethod
    def made(cls, endpoints: int, blocks: int, shared: int, prompts: int) -> "Population":
        rng = np.random.default_rng(0)
        common = Chain.made(rng, shared)
        own = [common.below(rng, blocks - shared) for _ in range(prompts)]
        places = [rng.choice(endpoints, cls.HOLDERS, replace=False).tolist() for _ in own]
        return cls(endpoints, common, own, places)

    def chains(self) -> Iterator[tuple[Chain, Sequence[int]]]:
        """Each chain with the slots that hold it."""
        yield self.shared, range(self.endpoints)
        yield from zip(self.own, self.places, strict=True)

    def prompts(self) -> list[Hashes]:
        return [np.concatenate((self.shared.blocks, chain.blocks)) for chain in self.own]


def _hashes(rng: np.random.Generator, blocks: int) -> Hashes:
    return rng.integers(1, 2**64, blocks, dtype=np.uint64)


def _json(data: object) -> bytes:
    return json.dumps({"event_id": 0, "data": data}).encode()
