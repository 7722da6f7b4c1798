"""A full index gives up what it says first, and forgets nothing by halves."""

import struct
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kvindex.test_engine_blocks import BLOCK_TOKENS, EVENTS, SLOTS, removed, stored
from vicinal.domain.tier import Tier
from vicinal.kvindex.engine_blocks import EngineBlocks, Oddity
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.inferred import InferredBlocks
from vicinal.kvindex.limit import Limit

pytestmark = pytest.mark.mission("B14", "B16")


def hashes_of(*tokens: int) -> bytes:
    return chain(struct.pack(f"<{len(tokens)}I", *tokens), 1)


def limited(blocks_max: int, run_blocks_max: int = 128) -> tuple[BlockIndex, Limit]:
    index = BlockIndex(1, run_blocks_max)
    return index, Limit(EngineBlocks(index), InferredBlocks(index), blocks_max)


def test_nothing_goes_while_there_is_room() -> None:
    index, limit = limited(4)
    index.store(0, ROOT, hashes_of(1, 2, 3, 4))
    assert limit.keep() == 0
    assert len(index) == 4


def test_what_is_in_no_hbm_goes_first_then_what_is_coldest() -> None:
    index, limit = limited(30)
    prompts = {name: hashes_of(*[name] * 10) for name in range(4)}
    index.store(0, ROOT, prompts[0], Tier.HOST)
    for name, asked_s in ((1, 500.0), (2, 400.0), (3, 600.0)):
        index.store(0, ROOT, prompts[name])
        index.expect(1, prompts[name], asked_s)
        index.unexpect(1, prompts[name])
    assert limit.keep() == 20  # one too many, and a tenth of the maximum more: two runs
    assert [index.group(unpack(prompts[name])[0]) is not None for name in range(4)] == [False, True, False, True]
    index.validate()


def test_prompts_are_given_up_from_their_ends() -> None:
    index, limit = limited(60, run_blocks_max=20)
    prompt = hashes_of(*range(70))
    index.store(0, ROOT, prompt)
    assert limit.keep() == 30  # runs of 20, 20, 20 and 10
    assert index.match(prompt, 1).ready.tolist() == [40]


def test_what_somebody_counts_on_stays() -> None:
    index, limit = limited(1)
    planned, read, idle = hashes_of(1, 1), hashes_of(2, 2), hashes_of(3, 3)
    for prompt in (planned, read, idle):
        index.store(0, ROOT, prompt)
    index.expect(0, planned)
    index.lease(0, read)
    assert limit.keep() == 2
    assert index.match(planned, 1).ready.tolist() == index.match(read, 1).ready.tolist() == [2]
    index.release(0, read)
    index.store(0, ROOT, idle)
    assert limit.keep() == 4
    index.validate()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SLOTS, EVENTS), max_size=40), st.integers(1, 4))
def test_after_any_events_the_limit_holds_and_no_name_is_left_of_what_went(history, blocks_max) -> None:
    index = BlockIndex(BLOCK_TOKENS, run_blocks_max=2)
    engines = EngineBlocks(index)
    limit = Limit(engines, InferredBlocks(index), blocks_max)
    for slot, event in history:
        engines.apply(slot, event)
        limit.keep()
        index.validate()
        assert len(index) <= blocks_max
    for slot, engine in engines._slots.items():
        for tier, names in engine.tiers:
            assert {block for block in names.blocks.values() if not index.holders(block, tier) >> slot & 1} == set()
            assert names.more_names.keys() <= set(names.blocks.values())
            for name in names.more_stores:
                assert name in names.blocks or index.names.called(slot, name, tier) is not None
        for name in (1, 2, 3, 4, b"five", b"six"):
            for tier in Tier:
                for _ in range(40):
                    engines.apply(slot, removed(name, incarnation=engine.incarnation, tier=tier))
    assert len(index) == 0
    assert all(engines.names_held(slot) == engines.names_apart(slot) == 0 for slot in engines._slots)


def test_blocks_given_up_are_counted_and_a_later_removal_of_them_is_of_unknown_names() -> None:
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    limit = Limit(engines, InferredBlocks(index), 1)
    engines.apply(0, stored((1, 2), (1, 2, 3, 4)))
    limit.keep()
    engines.apply(0, removed(2, 1))
    assert engines.counts == {Oddity.GIVEN_UP: 2, Oddity.UNKNOWN_REMOVED: 2}


def test_memory_comes_back_when_an_engine_is_cleared() -> None:
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    blocks = 20_000
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for round_ in range(3):
        for first in range(0, blocks, 100):
            tokens = range(first + round_, first + round_ + 100 * BLOCK_TOKENS)
            engines.apply(0, stored(range(first, first + 100), tokens))
        assert index.blocks_held(0) == blocks
        engines.forget(0)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(index) == 0
    assert kept < blocks * 10, "an index that is full takes twenty times as much"
    assert sys.getsizeof(index._tree.where) < 10_000
