"""Any history of operations: the index and its naive twin cannot be told apart, and the tree stays sound."""

import struct

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vicinal.domain.tier import Tier
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.naive import NaiveIndex

SLOTS = st.sampled_from((0, 1, 7, 8, 70))
SLOTS_ASKED = 71
TIERS = st.sampled_from((*(Tier.HBM,) * 5, *Tier))
PATHS = st.lists(st.sampled_from((0, 0, 0, 1)), max_size=9).map(tuple)
PROBES = [(0,) * 9, (0, 0, 0, 0, 1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0, 1), (1, 0, 0)]


def hashes_of(path: tuple[int, ...]) -> bytes:
    return chain(struct.pack(f"<{len(path)}I", *path), 1)


def name_of(*blocks: int) -> bytes:
    return struct.pack(f"<{len(blocks)}Q", *((block + 1) % 2**64 for block in blocks))


BLOCKS = sorted({block for path in PROBES for block in unpack(hashes_of(path))})


class TwoIndexes(RuleBasedStateMachine):
    @initialize(run_blocks_max=st.sampled_from((1, 2, 3, 5, 128)))
    def start(self, run_blocks_max):
        self.index = BlockIndex(1, run_blocks_max)
        self.naive = NaiveIndex(1)
        self.named = set()

    @rule(slot=SLOTS, path=PATHS, known=st.integers(0, 9), tier=TIERS)
    def store(self, slot, path, known, tier):
        hashes = hashes_of(path)
        known = min(known, len(path))
        parent = unpack(hashes)[known - 1] if known else ROOT
        rest = hashes[known * 8 :]
        assert self.index.store(slot, parent, rest, tier) == self.naive.store(slot, parent, rest, tier)

    @rule(slot=SLOTS, path=PATHS, tier=TIERS)
    def store_whole(self, slot, path, tier):
        assert self.index.store(slot, ROOT, hashes_of(path), tier)
        assert self.naive.store(slot, ROOT, hashes_of(path), tier)

    @rule(slot=SLOTS, path=PATHS, chosen=st.sets(st.integers(0, 8)), tier=TIERS)
    def remove(self, slot, path, chosen, tier):
        blocks = [block for number, block in enumerate(unpack(hashes_of(path))) if number in chosen]
        self.index.remove(slot, blocks + blocks[:1], tier)
        self.naive.remove(slot, blocks, tier)

    @rule(slot=SLOTS, path=PATHS, tier=TIERS)
    def store_named(self, slot, path, tier):
        """All engines call a block by its hash and one. It is refused only where the slot holds some without a name."""
        hashes = hashes_of(path)
        blocks = unpack(hashes)
        held = self.naive.held_among(slot, blocks, tier)
        again = self.index.names.store(slot, ROOT, hashes, name_of(*blocks), tier)
        if any((slot, tier, block) not in self.named for block in held):
            assert again is None
            return
        assert again == name_of(*(block for block in blocks if block in held))
        assert self.naive.store(slot, ROOT, hashes, tier)
        self.named.update((slot, tier, block) for block in blocks)

    @rule(slot=SLOTS, path=PATHS, order=st.permutations(range(9)), count=st.integers(0, 9), tier=TIERS)
    def remove_named(self, slot, path, order, count, tier):
        blocks = unpack(hashes_of(path))
        self.remove_by_name(slot, [blocks[number] for number in order[:count] if number < len(blocks)], tier)

    @rule(slot=SLOTS, path=PATHS, kept=st.integers(0, 9), tier=TIERS)
    def remove_the_end(self, slot, path, kept, tier):
        self.remove_by_name(slot, unpack(hashes_of(path))[kept:][::-1], tier)

    def remove_by_name(self, slot, blocks, tier):
        self.forget_unheld()
        known = [block for block in blocks if (slot, tier, block) in self.named]
        names = unpack(name_of(*blocks))
        assert [self.index.names.called(slot, name, tier) for name in names] == [
            block if block in known else None for block in blocks
        ]
        assert sorted(unpack(self.index.names.remove(slot, names, tier))) == sorted(known)
        self.naive.remove(slot, known, tier)

    def forget_unheld(self):
        self.named = {
            (slot, tier, block) for slot, tier, block in self.named if (slot, block) in self.naive.ready[tier]
        }

    @rule(slot=SLOTS, tiers=st.sampled_from((tuple(Tier), (Tier.HBM,), (Tier.HOST, Tier.SSD))))
    def clear(self, slot, tiers):
        self.index.clear(slot, tiers)
        self.naive.clear(slot, tiers)

    @rule(slot=SLOTS, path=PATHS)
    def expect(self, slot, path):
        assert self.index.expect(slot, hashes_of(path)) == len(path)
        assert self.naive.expect(slot, hashes_of(path)) == len(path)

    @rule(slot=SLOTS, path=PATHS)
    def unexpect(self, slot, path):
        assert self.index.unexpect(slot, hashes_of(path)) == self.naive.unexpect(slot, hashes_of(path))

    @rule(slot=SLOTS, path=PATHS)
    def lease(self, slot, path):
        assert self.index.lease(slot, hashes_of(path)) == self.naive.lease(slot, hashes_of(path))

    @rule(slot=SLOTS, path=PATHS)
    def release(self, slot, path):
        assert self.index.release(slot, hashes_of(path)) == self.naive.release(slot, hashes_of(path))

    @rule(path=PATHS)
    def match(self, path):
        self.compare(hashes_of(path))

    @invariant()
    def sound_and_equal(self):
        self.index.validate()
        self.naive.validate()
        assert len(self.index) == len(self.naive)
        self.forget_unheld()
        ours, theirs = self.index, self.naive
        for tier in Tier:
            for slot in (0, 1, 7, 8, 70):
                assert ours.blocks_held(slot, tier) == theirs.blocks_held(slot, tier)
                assert ours.held_among(slot, BLOCKS, tier) == theirs.held_among(slot, BLOCKS, tier)
            assert [ours.holders(block, tier) for block in BLOCKS] == [theirs.holders(block, tier) for block in BLOCKS]
        self.compare(hashes_of(PROBES[0]))
        self.compare(hashes_of(PROBES[1]))

    def compare(self, hashes: bytes) -> None:
        ours, theirs = self.index.match(hashes, SLOTS_ASKED), self.naive.match(hashes, SLOTS_ASKED)
        assert [ours.ready_at(slot) for slot in range(SLOTS_ASKED)] == theirs.ready.tolist()
        assert ours.ready.tolist() == theirs.ready.tolist()
        assert ours.expected.tolist() == theirs.expected.tolist()
        for tier in Tier:
            assert ours.reach(tier).tolist() == theirs.reach(tier).tolist()


class TwoIndexesWithCollisions(TwoIndexes):
    """Hashes out of place: chains that no tokens make, as only collisions would."""

    CHAINS = st.lists(st.sampled_from(BLOCKS[:6]), max_size=4).map(
        lambda blocks: struct.pack(f"<{len(blocks)}Q", *blocks)
    )

    @rule(slot=SLOTS, path=PATHS, tier=TIERS)
    def store_whole(self, slot, path, tier):
        hashes = hashes_of(path)
        assert self.index.store(slot, ROOT, hashes, tier) == self.naive.store(slot, ROOT, hashes, tier)

    @rule(slot=SLOTS, path=PATHS)
    def expect(self, slot, path):
        assert self.index.expect(slot, hashes_of(path)) == self.naive.expect(slot, hashes_of(path))

    @rule()
    def store_named(self):
        """A collision keeps stores from being complete; names are tried on honest hashes."""

    @rule(slot=SLOTS, parent=st.sampled_from((ROOT, *BLOCKS[:6])), hashes=CHAINS)
    def store_anything(self, slot, parent, hashes):
        assert self.index.store(slot, parent, hashes) == self.naive.store(slot, parent, hashes)

    @rule(slot=SLOTS, hashes=CHAINS)
    def expect_anything(self, slot, hashes):
        assert self.index.expect(slot, hashes) == self.naive.expect(slot, hashes)

    @rule(slot=SLOTS, hashes=CHAINS)
    def unexpect_anything(self, slot, hashes):
        assert self.index.unexpect(slot, hashes) == self.naive.unexpect(slot, hashes)


@pytest.mark.mission("B16")
class TestHonestHashes(TwoIndexes.TestCase):
    settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


@pytest.mark.mission("B16")
class TestCollidingHashes(TwoIndexesWithCollisions.TestCase):
    settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
