"""The oracle: the same answers as `BlockIndex`, one block at a time, with nothing clever in it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.kvindex.hashing import ROOT, unpack


@dataclass(frozen=True, slots=True)
class NaiveMatch:
    """What `Match` says, counted block by block."""

    ready: NDArray[np.int32]
    expected: NDArray[np.int32]


class NaiveIndex:
    """Each known block's parent, the set of ready copies, and the count of plans per filling copy."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.parents: dict[int, int] = {}
        self.ready: set[tuple[int, int]] = set()
        self.filling: Counter[tuple[int, int]] = Counter()

    def __len__(self) -> int:
        return len(self.parents)

    def blocks_held(self, slot: int) -> int:
        return sum(1 for holder, _ in self.ready if holder == slot)

    def holders(self, block: int) -> int:
        return sum(1 << slot for slot, held in self.ready if held == block)

    def held_among(self, slot: int, blocks: Iterable[int]) -> set[int]:
        return {block for block in blocks if (slot, block) in self.ready}

    def match(self, hashes: bytes, slots: int) -> NaiveMatch:
        ready = np.zeros(slots, dtype=np.int32)
        expected = np.zeros(slots, dtype=np.int32)
        path = self._path(hashes)
        for slot in range(slots):
            for block in path:
                if (slot, block) not in self.ready:
                    break
                ready[slot] += 1
            for block in path:
                if (slot, block) not in self.ready and not self.filling[slot, block]:
                    break
                expected[slot] += 1
        return NaiveMatch(ready, expected)

    def store(self, slot: int, parent: int, hashes: bytes) -> bool:
        if parent != ROOT and parent not in self.parents:
            return False
        blocks = unpack(hashes)
        if self._placeable(parent, blocks) < len(blocks):
            return False
        self._place(parent, blocks)
        self.ready.update((slot, block) for block in blocks)
        return True

    def remove(self, slot: int, hashes: Iterable[int]) -> None:
        self.ready.difference_update((slot, block) for block in hashes)
        self._prune()

    def clear(self, slot: int) -> None:
        self.ready = {copy for copy in self.ready if copy[0] != slot}
        self._prune()

    def expect(self, slot: int, hashes: bytes) -> int:
        blocks = unpack(hashes)
        blocks = blocks[: self._placeable(ROOT, blocks)]
        self._place(ROOT, blocks)
        self.filling.update((slot, block) for block in blocks)
        return len(blocks)

    def unexpect(self, slot: int, hashes: bytes) -> int:
        released = 0
        for block in self._path(hashes):
            if self.filling[slot, block]:
                self.filling[slot, block] -= 1
                released += 1
        self._prune()
        return released

    def validate(self) -> None:
        """Every copy is of a known block, and every known block is needed."""
        needed = {block for _, block in self.ready} | {block for (_, block), count in self.filling.items() if count}
        assert needed <= self.parents.keys()
        assert set(self.parents) - needed <= set(self.parents.values())

    def _path(self, hashes: bytes) -> list[int]:
        """The leading blocks of a chain that are known in their place."""
        path: list[int] = []
        for block in unpack(hashes):
            if self.parents.get(block) != (path[-1] if path else ROOT):
                break
            path.append(block)
        return path

    def _placeable(self, parent: int, blocks: tuple[int, ...]) -> int:
        """How many blocks from the first are known under the one before them, or new."""
        above, fresh = parent, set[int]()
        for number, block in enumerate(blocks):
            if block in fresh or (block in self.parents and self.parents[block] != above):
                return number
            if block not in self.parents:
                fresh.add(block)
            above = block
        return len(blocks)

    def _place(self, parent: int, blocks: tuple[int, ...]) -> None:
        above = parent
        for block in blocks:
            self.parents[block] = above
            above = block

    def _prune(self) -> None:
        self.filling = +self.filling
        needed = {block for _, block in self.ready} | {block for _, block in self.filling}
        while True:
            inner = set(self.parents.values())
            dead = [block for block in self.parents if block not in needed and block not in inner]
            if not dead:
                return
            for block in dead:
                del self.parents[block]
