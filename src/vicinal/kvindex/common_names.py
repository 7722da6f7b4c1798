"""What engines call blocks, kept once for all engines that agree.

Engines with equal settings give equal hashes, so a name is kept with the run whose block it stands for, whoever holds
it: a further holder costs nothing. Each copy of a run either goes by the run's common names, or is *apart*: its engine
calls the blocks otherwise, or nobody said what they are called, and whoever stored it remembers that
(engine_blocks.py). A name is forgotten with the last copy that goes by it.
"""

from collections.abc import Iterable, Sequence

from vicinal.domain.request import HASH_BYTES
from vicinal.domain.tier import Tier
from vicinal.kvindex.hashing import pack_hashes, unpack
from vicinal.kvindex.holdings import Holdings
from vicinal.kvindex.run import NO_APART, Run, depth
from vicinal.kvindex.tree import common_end_bytes


class CommonNames:
    """Stores and removes ready copies by their common names. Names are unsigned 64-bit numbers."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._tree = holdings.tree

    def store(self, slot: int, parent: int, hashes: bytes, names: bytes, tier: Tier = Tier.HBM) -> bytes | None:
        """As `BlockIndex.store`, with what the engine calls the blocks, packed like them, as their common names.

        Returns the names of those blocks that the slot held already, by the same names. None, and nothing is stored,
        when `store` would refuse, or when it cannot be all by common names: a block has another one, a name stands for
        another block or comes twice, or the slot holds some of the blocks apart.
        """
        place = self._tree.locate(parent)
        if place is None:
            return None
        run, offset = place
        goes_on = offset == len(run.hashes) and not run.children
        stretches, done = ([], 0) if goes_on else self._tree.follow(run, offset, hashes)
        bit, at = 1 << slot, depth(tier)
        again: list[bytes] = []
        unnamed = b""
        read = 0
        for part, start, stop in stretches:
            called = names[read : read + stop - start]
            read += stop - start
            if not part.names:
                unnamed += called
                if part.held_in(at) & bit:
                    return None
            elif part.names[start:stop] != called or part.apart[at] & bit:
                return None
            elif part.held_in(at) & bit:
                again.append(called)
        rest, rest_names = hashes[done:], names[done:]
        if unnamed or rest:
            fresh, fresh_names = unpack(rest), unpack(unnamed + rest_names)
            if not (self._all_new(fresh_names) and self._tree.all_fresh(fresh)):
                return None
        gained_bytes = len(rest)
        read = 0
        for run, start, stop in stretches:
            called = names[read : read + stop - start]
            read += stop - start
            offset = stop
            if not run.held_in(at) & bit:
                gained_bytes += stop - start
                run = self._tree.carve(run, start, stop)
                run.gain(at, bit, apart=False)
                offset = len(run.hashes)
                if not run.names:
                    run.names = called
                    self._holdings.named.update(zip(unpack(called), unpack(run.hashes), strict=True))
        if rest:
            alike = goes_on and run.apart is NO_APART and run.only_copy(at, bit)
            if not (alike and self._tree.extend(run, rest, rest_names)):
                copies = Run(b"")
                copies.gain(at, bit, apart=False)
                self._tree.grow(run, offset, rest, copies, rest_names)
            self._holdings.named.update(zip(fresh_names[len(unnamed) // HASH_BYTES :], fresh, strict=True))
        self._holdings.held[at][slot] += gained_bytes // HASH_BYTES
        self._tree.settle()
        return b"".join(again)

    def _all_new(self, names: Sequence[int]) -> bool:
        if len(names) == 1:
            return names[0] not in self._holdings.named
        return self._holdings.named.keys().isdisjoint(names) and len(set(names)) == len(names)

    def called(self, slot: int, name: int, tier: Tier = Tier.HBM) -> int | None:
        """The block of which the slot has a ready copy in the tier by this common name."""
        block = self._holdings.named.get(name)
        if block is None:
            return None
        at = depth(tier)
        run = self._tree.where[block]
        return block if run.held_in(at) & ~run.apart[at] & 1 << slot else None

    def knows_any(self, names: Iterable[int]) -> bool:
        """Whether one of these is the common name of a block, whoever holds it."""
        return not self._holdings.named.keys().isdisjoint(names)

    def set_apart(self, slot: int, blocks: Iterable[int], tier: Tier = Tier.HBM) -> dict[int, int]:
        """Let the slot's copies of these blocks go by no common name. Returns what they were called, blocks by name;
        blocks that the slot does not hold by a common name are passed over."""
        bit, at = 1 << slot, depth(tier)
        names: dict[int, int] = {}
        for block in blocks:
            run = self._tree.where.get(block)
            if run is None or not run.held_in(at) & ~run.apart[at] & bit:
                continue
            start = run.place(block.to_bytes(HASH_BYTES, "little"))
            part = self._tree.carve(run, start, start + HASH_BYTES)
            names[int.from_bytes(part.names, "little")] = block
            part.set_apart(at, bit)
            self._holdings.forget_unused_names(part)
        self._tree.settle()
        return names

    def remove(self, slot: int, names: Sequence[int], tier: Tier = Tier.HBM) -> bytes:
        """Forget the slot's copies of the blocks with these common names, one after the other; names that stand for
        none are passed over. Returns the blocks, packed, in no certain order. Stretches of a run go at once: engines
        free a prompt from its end."""
        bit, at = 1 << slot, depth(tier)
        named, where = self._holdings.named, self._tree.where
        backwards = pack_hashes(names[::-1]) if len(names) > 1 else b""
        number = 0
        gone: list[bytes] = []
        while number < len(names):
            name = names[number]
            block = named.get(name)
            run = None if block is None else where[block]
            if block is None or run is None or not run.held_in(at) & ~run.apart[at] & bit:
                number += 1
                continue
            stop = run.place(block.to_bytes(HASH_BYTES, "little")) + HASH_BYTES
            size_bytes = HASH_BYTES
            if number + 1 < len(names):
                size_bytes = common_end_bytes(run.names[:stop], backwards[: len(backwards) - number * HASH_BYTES])
            gone.append(run.hashes[stop - size_bytes : stop])
            self._holdings.lose(slot, run, stop - size_bytes, stop, at)
            number += size_bytes // HASH_BYTES
        self._tree.settle()
        return b"".join(gone)
