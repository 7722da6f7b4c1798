"""The block-group index: which endpoint holds how much of a prompt, ready or about to be.

Blocks have vicinal's chained hashes (hashing.py), endpoints small numbers (slots) that the caller gives out. A *ready*
copy is what an engine said it holds. A *filling* copy is what a planned request will make: it counts from the moment
of the plan, so that a burst of siblings goes where the first of them went, instead of scattering.

Copies are kept per tier. A request fills HBM only, so filling copies have no tier. A copy in a remote store counts for
the slot that announced it: whether another engine could read it there is not known here.

What engines call blocks is kept beside the copies (`names`, common_names.py). `store` and `remove` know no names.

Nothing assumes that holders shrink along a chain. An engine may drop a block and keep the next; a match then ends at
the hole, and comes back whole when the block does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from math import inf
from operator import or_
from types import MappingProxyType

from vicinal.domain.request import HASH_BYTES
from vicinal.domain.tier import Tier
from vicinal.kvindex.common_names import CommonNames
from vicinal.kvindex.groups import Group, group_of
from vicinal.kvindex.holdings import Holdings
from vicinal.kvindex.invariants import check
from vicinal.kvindex.match import Match
from vicinal.kvindex.run import Run, depth
from vicinal.kvindex.tree import RunTree

RUN_BLOCKS_MAX = 128
"""Long enough that a match of a 10,000-token prompt compares five runs, short enough that a split copies 1 KB."""

NO_EPOCHS: Mapping[int, int] = MappingProxyType({})


class BlockIndex:
    """All hashes in one index are of blocks of `block_tokens` tokens. Packed hashes are 8 bytes each, little-endian.

    Two prefixes with the same hash (a collision, which a hostile client can build) never share a place: whichever is
    known first keeps it, and the other is not stored below that block.
    """

    def __init__(self, block_tokens: int, run_blocks_max: int = RUN_BLOCKS_MAX) -> None:
        self.block_tokens = block_tokens
        self._tree = RunTree(run_blocks_max)
        self._holdings = Holdings(self._tree)
        self._held = self._holdings.held
        self.names = CommonNames(self._holdings)

    def __len__(self) -> int:
        """Blocks known: held or filling somewhere, or on the path to one that is."""
        return len(self._tree.where)

    def blocks_held(self, slot: int, tier: Tier = Tier.HBM) -> int:
        """Ready copies in this tier of the slot."""
        return self._held[depth(tier)][slot]

    def holders(self, block: int, tier: Tier = Tier.HBM) -> int:
        """The slots with a ready copy of this block in the tier, as a mask; 0 for an unknown block."""
        run = self._tree.where.get(block)
        return 0 if run is None else run.held_in(depth(tier))

    def parent(self, block: int) -> int:
        """The block before a known block in its prefix; ROOT for a prompt's first. KeyError for an unknown block."""
        return self._tree.above(self._tree.where[block], block)

    def held_among(self, slot: int, blocks: Iterable[int], tier: Tier = Tier.HBM) -> set[int]:
        """Those of `blocks` of which the slot has a ready copy in the tier."""
        where, bit, at = self._tree.where, 1 << slot, depth(tier)
        return {block for block in blocks if (run := where.get(block)) is not None and run.held_in(at) & bit}

    def match(self, hashes: bytes, slots: int) -> Match:
        """How much of a prompt each of the slots 0 to `slots` - 1 has, from the prompt's start."""
        stretches, _ = self._tree.follow(self._tree.root, 0, hashes)
        return Match(stretches, slots)

    def store(self, slot: int, parent: int, hashes: bytes, tier: Tier = Tier.HBM) -> bool:
        """Note ready copies, in one tier, of a chain that continues `parent` (ROOT, or a known block).

        False, and nothing is stored, when the parent is unknown or a new block's hash already has another place.
        """
        place = self._tree.locate(parent)
        if place is None:
            return False
        run, offset = place
        stretches, done = self._tree.follow(run, offset, hashes)
        rest = hashes[done:]
        if self._tree.fresh_bytes(rest) < len(rest):
            return False
        bit, at = 1 << slot, depth(tier)
        gained_bytes = len(rest)
        for run, start, stop in stretches:
            offset = stop
            if not run.held_in(at) & bit:
                gained_bytes += stop - start
                run = self._tree.carve(run, start, stop)
                run.gain(at, bit, apart=True)
                offset = len(run.hashes)
        if rest:
            copies = Run(b"")
            copies.gain(at, bit, apart=True)
            self._tree.grow(run, offset, rest, copies)
        self._held[at][slot] += gained_bytes // HASH_BYTES
        self._tree.settle()
        return True

    def blocks_above_others(self, slot: int, hashes: bytes) -> int:
        """How many blocks of a chain, from the root, come before something else that the slot has ready in HBM: what
        would be cut off if they went."""
        stretches, _ = self._tree.follow(self._tree.root, 0, hashes)
        below = [run for run, _, _ in stretches[1:]]
        done_bytes = above_bytes = 0
        for number, (run, start, stop) in enumerate(stretches):
            done_bytes += stop - start
            if stop < len(run.hashes):
                others = bool(run.holders >> slot & 1)
            else:
                on_path = below[number] if number < len(below) else None
                others = any(child is not on_path and child.holders >> slot & 1 for child in run.children.values())
            if others:
                above_bytes = done_bytes
        return above_bytes // HASH_BYTES

    def takes(self, parent: int, hashes: bytes) -> bool:
        """Whether `store` would."""
        place = self._tree.locate(parent)
        if place is None:
            return False
        rest = hashes[self._tree.follow(*place, hashes)[1] :]
        return self._tree.fresh_bytes(rest) == len(rest)

    def remove(self, slot: int, hashes: Iterable[int], tier: Tier = Tier.HBM) -> None:
        """Forget ready copies in one tier; those in others stay. Blocks of which the slot has none are passed over."""
        bit, at = 1 << slot, depth(tier)
        places: dict[Run, set[int]] = {}
        for block in hashes:
            run = self._tree.where.get(block)
            if run is not None and run.held_in(at) & bit:
                places.setdefault(run, set()).add(run.place(block.to_bytes(HASH_BYTES, "little")))
        for run, offsets in places.items():
            stretches = [run.hashes[start:stop] for start, stop in _ranges(sorted(offsets))]
            for stretch in stretches:  # what is cut before moves the next
                part, offset = self._tree.find(stretch[:HASH_BYTES])
                self._holdings.lose(slot, part, offset, offset + len(stretch), at)
        self._tree.settle()

    def clear(self, slot: int, tiers: Iterable[Tier] = Tier) -> None:
        """Forget all ready copies of a slot, in all tiers or in these. Claims stay: they belong to requests and to
        readers, who end them.

        Takes time in proportion to the runs of the whole index; it is for resets and restarts.
        """
        bit = 1 << slot
        for at in map(depth, tiers):
            if not self._held[at][slot]:
                continue
            for run in [run for run in self._tree.runs() if run.held_in(at) & bit]:
                self._holdings.lose(slot, run, 0, len(run.hashes), at)
            del self._held[at][slot]
            self._tree.settle()
        self._holdings.shrink()

    def expect(self, slot: int, hashes: bytes, now: float = -inf) -> int:
        """Count one more planned request that will leave this chain, from the root, in the slot; what is known of it
        grows warmer by one request at `now`.

        Returns the blocks that it covers: all, but for a collision, which ends it early.
        """
        stretches, done = self._tree.follow(self._tree.root, 0, hashes)
        run, offset = self._tree.root, 0
        for run, start, stop in stretches:
            run = self._tree.carve(run, start, stop)
            offset = len(run.hashes)
            run.expect(slot)
            if now > -inf:
                run.warm(now)
        rest = hashes[done : done + self._tree.fresh_bytes(hashes[done:])]
        if rest:
            copies = Run(b"")
            copies.expect(slot)
            copies.warm_s = now
            self._tree.grow(run, offset, rest, copies)
        self._tree.settle()
        return (done + len(rest)) // HASH_BYTES

    def unexpect(self, slot: int, hashes: bytes) -> int:
        """Take back one `expect` of the same slot and chain. Returns the blocks for which there was one.

        Fewer than `expect` returned means that the two were not paired; nothing ever counts below zero.
        """
        stretches, _ = self._tree.follow(self._tree.root, 0, hashes)
        released_bytes = 0
        for run, start, stop in stretches:
            if slot in run.filling:
                self._tree.carve(run, start, stop).unexpect(slot)
                released_bytes += stop - start
        self._tree.settle()
        return released_bytes // HASH_BYTES

    def lease(self, slot: int, hashes: bytes) -> int:
        """Count one more reader of the slot's copies of this chain, from the root: they are not given up before it
        releases them. Returns the blocks leased: those that the slot has, in any tier, up to the first that it lacks.
        """
        stretches, _ = self._tree.follow(self._tree.root, 0, hashes)
        leased_bytes = 0
        for run, start, stop in stretches:
            if not run.held_anywhere >> slot & 1:
                break
            self._tree.carve(run, start, stop).lease(slot)
            leased_bytes += stop - start
        self._tree.settle()
        return leased_bytes // HASH_BYTES

    def release(self, slot: int, hashes: bytes) -> int:
        """Take back one `lease`: of the same slot, and of as many blocks of the chain as were leased. What the engine
        removed in the meantime is released too. Returns the blocks for which there was a lease.
        """
        stretches, _ = self._tree.follow(self._tree.root, 0, hashes)
        released_bytes = 0
        for run, start, stop in stretches:
            if slot in run.leases:
                self._tree.carve(run, start, stop).release(slot)
                released_bytes += stop - start
        self._tree.settle()
        return released_bytes // HASH_BYTES

    def known(self, hashes: bytes) -> int:
        """How many blocks of a chain, from the root, are known."""
        return self._tree.follow(self._tree.root, 0, hashes)[1] // HASH_BYTES

    def cool(self, block: int) -> None:
        """Make the run of a block the coldest: the first to be given up. Does nothing for an unknown block."""
        if (run := self._tree.where.get(block)) is not None:
            run.warm_s = -inf

    def tell_gone(self, gone: Callable[[Sequence[int]], None]) -> None:
        """Tell `gone` of blocks that are not known any more, whenever some go."""
        self._tree.gone = gone

    def drop_coldest(self, blocks: int) -> tuple[set[int], int]:
        """Forget at least so many blocks, or as many as nobody has a claim on (kvindex/limit.py). Returns them, and who
        held some of them, as a mask."""
        found = self._holdings.drop_coldest(blocks)
        self._holdings.shrink()
        return found

    def groups(self, epochs: Mapping[int, int] = NO_EPOCHS) -> Iterator[Group]:
        """Every block group, parents first, with its copies' epochs by slot (`EngineBlocks.epochs`). It looks
        at everything."""
        return (group_of(run, epochs) for run in list(self._tree.runs()))

    def group(self, block: int, epochs: Mapping[int, int] = NO_EPOCHS) -> Group | None:
        """The group of a block; None for an unknown block."""
        run = self._tree.where.get(block)
        return None if run is None else group_of(run, epochs)

    def planned(self) -> int:
        """The slots with filling copies, as a mask. For checks: it looks at everything."""
        return reduce(or_, (run.expected for run in self._tree.runs()), 0)

    def validate(self) -> None:
        """Check every invariant; raises BrokenIndexError. For tests: it looks at every block."""
        check(self._tree, self._held, self._holdings.named)


def _ranges(offsets: list[int]) -> list[tuple[int, int]]:
    """Sorted offsets of single blocks as ranges of adjacent ones."""
    breaks = [right for left, right in pairwise(offsets) if right != left + HASH_BYTES]
    stops = [left + HASH_BYTES for left, right in pairwise(offsets) if right != left + HASH_BYTES]
    return list(zip([offsets[0], *breaks], [*stops, offsets[-1] + HASH_BYTES], strict=True))
