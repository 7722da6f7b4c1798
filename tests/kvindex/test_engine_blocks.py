"""Engine events against a naive twin that remembers every store as one entry of a list."""

import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId
from vicinal.domain.tier import Tier
from vicinal.kvindex.engine_blocks import EngineBlocks, Oddity
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex

ENGINE = EndpointId("p0")
BLOCK_TOKENS = 2


def stored(names, tokens, parent=None, keys=(), incarnation=1, block_tokens=BLOCK_TOKENS, tier=Tier.HBM):
    token_ids = struct.pack(f"<{len(tokens)}I", *tokens)
    return BlocksStored(ENGINE, incarnation, 0, parent, tuple(names), token_ids, block_tokens, tuple(keys), tier)


def removed(*names, incarnation=1, tier=Tier.HBM):
    return BlocksRemoved(ENGINE, incarnation, 0, names, tier)


def cleared(incarnation=1, reason="reset"):
    return BlocksCleared(ENGINE, incarnation, 0, reason)


def blocks_of(tokens, keys=()):
    return unpack(chain(struct.pack(f"<{len(tokens)}I", *tokens), BLOCK_TOKENS, ROOT, keys))


class Twin:
    """One slot. An entry is (tier, name, block); a block is its whole path: a tuple of (tokens, key) from the root."""

    def __init__(self):
        self.incarnation = None
        self.entries = []
        self.counts = Counter()

    def apply(self, event):
        if self.incarnation is not None and event.incarnation < self.incarnation:
            self.counts["old_incarnation"] += 1
            return
        if self.incarnation is not None and event.incarnation > self.incarnation:
            self.counts["new_incarnation"] += 1
            self.entries = []
        self.incarnation = event.incarnation
        if isinstance(event, BlocksCleared):
            kept = event.reason == "reset"
            self.entries = [entry for entry in self.entries if kept and entry[0] is not Tier.HBM]
        elif isinstance(event, BlocksRemoved):
            for name in event.hashes:
                at = next((i for i, entry in enumerate(self.entries) if entry[:2] == (event.tier, name)), None)
                if at is None:
                    self.counts["unknown_removed"] += 1
                else:
                    del self.entries[at]
        elif event.tier is not Tier.HBM and not event.token_ids:
            self.by_name(event)
        else:
            self.store(event)

    def by_name(self, event):
        for name in event.hashes:
            path = self.known(event.tier, name)
            if path is None:
                self.counts["unknown_stored"] += 1
            else:
                self.add(event.tier, name, path)

    def known(self, tier, name):
        places = [at for first in (tier, *Tier) for at in self.entries if at[:2] == (first, name)]
        return places[0][2] if places else None

    def store(self, event):
        if event.block_tokens != BLOCK_TOKENS:
            self.counts["wrong_block_size"] += 1
            return
        if len(event.token_ids) != 4 * BLOCK_TOKENS * len(event.hashes):
            self.counts["tokens_do_not_fit"] += 1
            return
        if len(event.extra_keys) not in (0, len(event.hashes)):
            self.counts["extra_keys_do_not_fit"] += 1
            return
        path = () if event.parent is None else self.known(event.tier, event.parent)
        if path is None:
            self.counts["unknown_parent"] += 1
            return
        if event.tier is not Tier.HBM and not event.extra_keys and event.hashes:
            known = self.known(event.tier, event.hashes[0])
            if known not in (None, (*path, (event.token_ids[: 4 * BLOCK_TOKENS], b""))):
                self.by_name(event)
                return
        for number, name in enumerate(event.hashes):
            tokens = event.token_ids[number * 4 * BLOCK_TOKENS : (number + 1) * 4 * BLOCK_TOKENS]
            path = (*path, (tokens, event.extra_keys[number] if event.extra_keys else b""))
            self.add(event.tier, name, path)

    def add(self, tier, name, path):
        if (tier, name, path) in self.entries:
            self.counts["stored_again"] += 1
        elif any(entry[:2] == (tier, name) for entry in self.entries):
            self.counts["renamed"] += 1
            self.entries = [entry for entry in self.entries if entry[:2] != (tier, name)]
        self.entries.append((tier, name, path))

    def held(self, tier):
        return {
            unpack(chain(b"".join(tokens for tokens, _ in path), BLOCK_TOKENS, ROOT, [key for _, key in path]))[-1]
            for held_in, _, path in self.entries
            if held_in is tier
        }


NAMES = st.sampled_from((1, 2, 3, 4, b"five", b"six"))
INCARNATIONS = st.sampled_from((1, 1, 1, 1, 1, 1, 1, 1, 2, 3))
TIERS = st.sampled_from((Tier.HBM,) * 6 + (Tier.HOST,) * 2 + (Tier.REMOTE,))


@st.composite
def stores(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=3))
    tier = draw(TIERS)
    oddly = draw(st.sampled_from((None,) * 12 + ("size", "tokens", "keys") + ("bare",) * 4 * (tier is not Tier.HBM)))
    count = 0 if oddly == "bare" else BLOCK_TOKENS * len(names) + (oddly == "tokens")
    tokens = [token for _ in range(count) for token in (draw(st.sampled_from((0, 0, 0, 1))),)]
    keys = draw(st.one_of(st.just(()), st.tuples(*[st.sampled_from((b"", b"", b"a"))] * len(names))))
    if oddly == "keys":
        keys = (b"",) * (len(names) + 1)
    return stored(
        names,
        tokens,
        parent=draw(st.one_of(st.none(), NAMES)),
        keys=keys,
        incarnation=draw(INCARNATIONS),
        block_tokens=BLOCK_TOKENS + (oddly == "size"),
        tier=tier,
    )


EVENTS = st.one_of(
    stores(),
    stores(),
    st.builds(
        lambda names, incarnation, tier: removed(*names, incarnation=incarnation, tier=tier),
        st.lists(NAMES, max_size=3),
        INCARNATIONS,
        TIERS,
    ),
    st.builds(cleared, INCARNATIONS, st.sampled_from(("reset", "reset", "gap", "restart"))),
)
SLOTS = st.sampled_from((0, 0, 0, 5))


@pytest.mark.mission("B16")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SLOTS, EVENTS), max_size=40))
def test_any_events_leave_the_copies_that_the_twin_has(history):
    index = BlockIndex(BLOCK_TOKENS, run_blocks_max=3)
    engines = EngineBlocks(index)
    twins = {0: Twin(), 5: Twin()}
    seen = set()
    for slot, event in history:
        engines.apply(slot, event)
        twins[slot].apply(event)
        index.validate()
        for number, twin in twins.items():
            for tier in (Tier.HBM, Tier.HOST, Tier.REMOTE):
                held = twin.held(tier)
                seen |= held
                assert {block for block in seen if index.holders(block, tier) >> number & 1} == held
                assert index.blocks_held(number, tier) == len(held)
            assert engines.names_held(number) == len({entry[:2] for entry in twin.entries})
    assert engines.counts == twins[0].counts + twins[5].counts
    for slot, twin in twins.items():
        for tier, name, _ in twin.entries:
            engines.apply(slot, removed(name, incarnation=twin.incarnation, tier=tier))
    assert len(index) == 0


@pytest.mark.mission("B16")
def test_two_engines_with_different_hashes_for_the_same_tokens_hold_the_same_blocks():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((11, 12), (1, 2, 3, 4)))
    engines.apply(1, stored((b"x",), (1, 2)))
    engines.apply(1, stored((b"y",), (3, 4), parent=b"x"))
    assert [index.holders(block) for block in blocks_of((1, 2, 3, 4))] == [3, 3]
    assert len(index) == 2
    assert not engines.counts


def test_a_block_stays_until_the_last_of_its_names_is_removed():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1,), (7, 7)))
    engines.apply(0, stored((2,), (7, 7)))
    engines.apply(0, removed(1))
    assert index.blocks_held(0) == 1
    engines.apply(0, removed(2))
    assert index.blocks_held(0) == 0
    assert not engines.counts


def test_two_physical_copies_under_one_name_need_two_removals():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1,), (7, 7)))
    engines.apply(0, stored((1,), (7, 7)))
    engines.apply(0, removed(1))
    engines.apply(0, stored((2,), (8, 8), parent=1))
    assert index.blocks_held(0) == 2
    engines.apply(0, removed(1, 2))
    assert index.blocks_held(0) == 0
    assert engines.counts == {Oddity.STORED_AGAIN: 1}


def test_an_engine_hash_that_now_means_other_tokens_gives_up_all_its_old_copies():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1,), (7, 7)))
    engines.apply(0, stored((1,), (7, 7)))
    engines.apply(0, stored((1,), (8, 8)))
    assert [index.holders(*blocks_of(tokens)) for tokens in ((7, 7), (8, 8))] == [0, 1]
    engines.apply(0, removed(1))
    assert len(index) == 0
    assert engines.counts == {Oddity.STORED_AGAIN: 1, Oddity.RENAMED: 1}


def test_salted_blocks_are_other_blocks():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1, 2), (1, 2, 3, 4), keys=(b"group-a", b"")))
    assert [index.holders(block) for block in blocks_of((1, 2, 3, 4))] == [0, 0]
    assert [index.holders(block) for block in blocks_of((1, 2, 3, 4), (b"group-a",))] == [1, 1]


def test_a_restarted_engine_starts_empty_and_its_past_is_ignored():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1, 2), (1, 2, 3, 4), incarnation=4))
    engines.apply(0, stored((9,), (5, 6), incarnation=5))
    assert index.blocks_held(0) == 1
    engines.apply(0, stored((1, 2), (1, 2, 3, 4), incarnation=4))
    engines.apply(0, stored((3,), (1, 1), parent=1, incarnation=5))
    assert index.blocks_held(0) == 1
    assert engines.epochs == {0: 5}
    assert engines.counts == {
        Oddity.NEW_INCARNATION: 1,
        Oddity.OLD_INCARNATION: 1,
        Oddity.UNKNOWN_PARENT: 1,
    }


def test_a_collision_is_counted_and_changes_nothing():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    (block,) = blocks_of((5, 6))
    index.store(3, ROOT, struct.pack("<2Q", 99, block))
    engines.apply(0, stored((1,), (5, 6)))
    assert engines.counts == {Oddity.COLLISION: 1}
    assert (index.blocks_held(0), engines.names_held(0), index.holders(block)) == (0, 0, 1 << 3)


def test_a_forgotten_slot_is_as_new():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1,), (1, 2), incarnation=9))
    engines.forget(0)
    engines.forget(6)
    assert (len(index), engines.names_held(0)) == (0, 0)
    engines.apply(0, stored((1,), (1, 2), incarnation=1))
    assert index.blocks_held(0) == 1
    assert not engines.counts


@pytest.mark.mission("B16")
def test_what_goes_from_one_tier_stays_in_the_others():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1, 2), (1, 2, 3, 4)))
    engines.apply(0, stored((1, 2), (), tier=Tier.HOST))
    engines.apply(0, removed(1, 2))
    assert (index.blocks_held(0), index.blocks_held(0, Tier.HOST), len(index)) == (0, 2, 2)
    engines.apply(0, stored((1,), (1, 2)))
    engines.apply(0, removed(1, tier=Tier.HOST))
    assert [index.holders(block) for block in blocks_of((1, 2, 3, 4))] == [1, 0]
    assert [index.holders(block, Tier.HOST) for block in blocks_of((1, 2, 3, 4))] == [0, 1]
    engines.apply(0, stored((3,), (5, 6), parent=2))  # its parent is known in the host tier only
    engines.apply(0, removed(1, 3))
    engines.apply(0, removed(2, tier=Tier.HOST))
    assert len(index) == engines.names_held(0) == 0
    assert not engines.counts


def test_a_reset_is_of_hbm_and_a_gap_of_everything():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1,), (1, 2)))
    for tier in (Tier.HOST, Tier.SSD, Tier.REMOTE):
        engines.apply(0, stored((1,), (1, 2), tier=tier))
    engines.apply(0, cleared())
    assert [index.blocks_held(0, tier) for tier in Tier] == [0, 1, 1, 1]
    engines.apply(0, cleared(reason="gap"))
    assert [index.blocks_held(0, tier) for tier in Tier] == [0, 0, 0, 0]
    assert len(index) == engines.names_held(0) == 0


def test_a_block_stored_without_tokens_that_no_tier_knows_is_passed_over():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored((1,), (1, 2)))
    engines.apply(0, stored((9, 1), (), tier=Tier.SSD))
    assert engines.counts == {Oddity.UNKNOWN_STORED: 1}
    assert index.blocks_held(0, Tier.SSD) == 1


def test_hashes_of_ours_stand_for_the_tokens():
    tokens = range(6)
    ours = chain(struct.pack("<6I", *tokens), BLOCK_TOKENS, ROOT)
    index = BlockIndex(BLOCK_TOKENS)
    blocks = EngineBlocks(index)
    blocks.apply(0, BlocksStored(ENGINE, 1, 0, None, (7, 8, 9), b"", BLOCK_TOKENS, block_hashes=ours))
    assert index.match(ours, 1).ready.tolist() == [3]
    blocks.apply(0, removed(8))
    assert index.match(ours, 1).ready.tolist() == [1]
    blocks.apply(0, BlocksStored(ENGINE, 1, 0, None, (7, 8), b"", BLOCK_TOKENS, block_hashes=ours))
    assert blocks.counts[Oddity.TOKENS_DO_NOT_FIT] == 1


@pytest.mark.mission("B16")
def test_what_is_offloaded_without_its_salt_is_still_the_salted_block():
    """vLLM tells the tokens of what it offloads and leaves out the extra keys."""
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    engines.apply(0, stored([1, 2], [5, 6, 7, 8], keys=(b"salt", b"")))
    engines.apply(0, stored([1, 2], [5, 6, 7, 8], tier=Tier.HOST))
    salted, plain = blocks_of([5, 6, 7, 8], (b"salt", b"")), blocks_of([5, 6, 7, 8])
    assert [index.holders(block, Tier.HOST) for block in salted] == [1, 1]
    assert [index.holders(block, Tier.HOST) for block in plain] == [0, 0]
    engines.apply(0, stored([3], [9, 9], parent=2, tier=Tier.HOST))
    assert index.holders(blocks_of([5, 6, 7, 8, 9, 9], (b"salt", b"", b""))[-1], Tier.HOST) == 1
    assert not engines.counts
