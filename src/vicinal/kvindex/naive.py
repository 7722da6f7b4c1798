"""The oracle: the same answers as `BlockIndex`, one block at a time, with nothing clever in it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.tier import Tier
from vicinal.kvindex.hashing import ROOT, unpack


@dataclass(frozen=True, slots=True)
class NaiveMatch:
    """What `Match` says, counted block by block."""

    ready: NDArray[np.int32]
    expected: NDArray[np.int32]
    reaches: dict[Tier, NDArray[np.int32]]

    def reach(self, tier: Tier) -> NDArray[np.int32]:
        return self.reaches[tier]


class NaiveIndex:
    """Each known block's parent, the set of ready copies per tier, and the counts of claims: plans, and readers."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.parents: dict[int, int] = {}
        self.ready: dict[Tier, set[tuple[int, int]]] = {tier: set() for tier in Tier}
        self.filling: Counter[tuple[int, int]] = Counter()
        self.leases: Counter[tuple[int, int]] = Counter()

    def __len__(self) -> int:
        return len(self.parents)

    def blocks_held(self, slot: int, tier: Tier = Tier.HBM) -> int:
        return sum(1 for holder, _ in self.ready[tier] if holder == slot)

    def holders(self, block: int, tier: Tier = Tier.HBM) -> int:
        return sum(1 << slot for slot, held in self.ready[tier] if held == block)

    def held_among(self, slot: int, blocks: Iterable[int], tier: Tier = Tier.HBM) -> set[int]:
        return {block for block in blocks if (slot, block) in self.ready[tier]}

    def match(self, hashes: bytes, slots: int) -> NaiveMatch:
        path = self._path(hashes)
        hbm = self.ready[Tier.HBM]
        usable = hbm | {copy for copy, count in self.filling.items() if count}
        ready, expected = _leading(path, hbm, slots), _leading(path, usable, slots)
        reaches: dict[Tier, NDArray[np.int32]] = {}
        for tier in Tier:
            usable = usable | self.ready[tier]
            reaches[tier] = _leading(path, usable, slots)
        return NaiveMatch(ready, expected, reaches)

    def store(self, slot: int, parent: int, hashes: bytes, tier: Tier = Tier.HBM) -> bool:
        if parent != ROOT and parent not in self.parents:
            return False
        blocks = unpack(hashes)
        if self._placeable(parent, blocks) < len(blocks):
            return False
        self._place(parent, blocks)
        self.ready[tier].update((slot, block) for block in blocks)
        return True

    def remove(self, slot: int, hashes: Iterable[int], tier: Tier = Tier.HBM) -> None:
        self.ready[tier].difference_update((slot, block) for block in hashes)
        self._prune()

    def clear(self, slot: int, tiers: Iterable[Tier] = Tier) -> None:
        for tier in tiers:
            self.ready[tier] = {copy for copy in self.ready[tier] if copy[0] != slot}
        self._prune()

    def expect(self, slot: int, hashes: bytes) -> int:
        blocks = unpack(hashes)
        blocks = blocks[: self._placeable(ROOT, blocks)]
        self._place(ROOT, blocks)
        self.filling.update((slot, block) for block in blocks)
        return len(blocks)

    def unexpect(self, slot: int, hashes: bytes) -> int:
        return self._one_less(self.filling, slot, hashes)

    def lease(self, slot: int, hashes: bytes) -> int:
        leased = 0
        for block in self._path(hashes):
            if not any((slot, block) in copies for copies in self.ready.values()):
                break
            self.leases[slot, block] += 1
            leased += 1
        return leased

    def release(self, slot: int, hashes: bytes) -> int:
        return self._one_less(self.leases, slot, hashes)

    def validate(self) -> None:
        """Every copy is of a known block, and every known block is needed."""
        needed = self._needed()
        assert needed <= self.parents.keys()
        assert set(self.parents) - needed <= set(self.parents.values())

    def _one_less(self, claims: Counter[tuple[int, int]], slot: int, hashes: bytes) -> int:
        released = 0
        for block in self._path(hashes):
            if claims[slot, block]:
                claims[slot, block] -= 1
                released += 1
        self._prune()
        return released

    def _needed(self) -> set[int]:
        """Blocks that are held in some tier, or claimed."""
        held = {block for copies in self.ready.values() for _, block in copies}
        claims = [*self.filling.items(), *self.leases.items()]
        return held | {block for (_, block), count in claims if count}

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
        self.filling, self.leases = +self.filling, +self.leases
        needed = self._needed()
        while True:
            inner = set(self.parents.values())
            dead = [block for block in self.parents if block not in needed and block not in inner]
            if not dead:
                return
            for block in dead:
                del self.parents[block]


def _leading(path: list[int], copies: set[tuple[int, int]], slots: int) -> NDArray[np.int32]:
    """Per slot, how many blocks from the first it has a copy of, without a hole."""
    found = np.zeros(slots, dtype=np.int32)
    for slot in range(slots):
        for block in path:
            if (slot, block) not in copies:
                break
            found[slot] += 1
    return found
