"""Inferred copies against a naive twin that keeps every prompt apart, and beside copies that an engine told of."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.inferred import InferredBlocks

TTL_S = 10.0


def hashes_of(path) -> bytes:
    return chain(struct.pack(f"<{len(path)}I", *path), 1)


class Twin:
    """Prompts of one slot, least recently used first; what is held is what they cover together."""

    def __init__(self):
        self.used = []

    def learn(self, path, blocks_max, now):
        path = path[:blocks_max]
        if not path:
            return
        self.used = [(old, at_s) for old, at_s in self.used if path[: len(old)] != old]
        self.used.append((path, now))
        while len(self.held()) > blocks_max and len(self.used) > 1:
            del self.used[0]

    def expire(self, now):
        self.used = [(path, at_s) for path, at_s in self.used if at_s + TTL_S > now]

    def held(self):
        return {path[:size] for path, _ in self.used for size in range(1, len(path) + 1)}


PATHS = st.lists(st.sampled_from((0, 0, 1)), max_size=7).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.sampled_from((0, 1)), PATHS),
        st.tuples(st.just("learn"), st.sampled_from((0, 1)), PATHS),
        st.tuples(st.just("wait"), st.sampled_from((1, 4, 11)), st.just(())),
        st.tuples(st.just("forget"), st.sampled_from((0, 1)), st.just(())),
    ),
    max_size=30,
)


@pytest.mark.mission("B16")
@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from((3, 6, 12)))
def test_any_history_leaves_what_the_twin_has(steps, blocks_max):
    index = BlockIndex(1, run_blocks_max=4)
    inferred = InferredBlocks(index, TTL_S)
    twins = {0: Twin(), 1: Twin()}
    seen, now = set(), 0.0
    for what, number, path in steps:
        if what == "wait":
            now += number
            inferred.expire(now)
            for twin in twins.values():
                twin.expire(now)
        elif what == "forget":
            inferred.forget(number)
            twins[number] = Twin()
        else:
            inferred.learn(number, hashes_of(path), blocks_max, now)
            twins[number].learn(path, blocks_max, now)
        seen |= {path[:size] for path in (path,) for size in range(1, len(path) + 1)}
        index.validate()
        for slot, twin in twins.items():
            held = twin.held()
            found = {path for path in seen if index.holders(unpack(hashes_of(path))[-1]) >> slot & 1}
            assert found == held
            assert index.blocks_held(slot) == inferred.blocks(slot) == len(held) <= blocks_max
    for slot in twins:
        inferred.forget(slot)
    assert len(index) == 0


def test_what_an_engine_told_of_is_not_touched():
    index = BlockIndex(1)
    inferred = InferredBlocks(index, TTL_S)
    told, named_by_text = hashes_of((1, 2, 3)), hashes_of((7, 8, 9, 9))
    index.store(0, ROOT, told)
    inferred.learn(0, named_by_text, 100, 0.0)
    assert inferred.blocks(0) == 4
    inferred.learn(0, hashes_of((5,)), 2, 1.0)  # the oldest is crowded out
    assert (index.blocks_held(0), inferred.blocks(0), inferred.given_up) == (4, 1, 1)
    inferred.expire(100.0)
    assert (index.blocks_held(0), inferred.blocks(0), inferred.expired) == (3, 0, 1)
    assert index.match(told, 1).ready.tolist() == [3]


def test_a_prompt_longer_than_the_cache_is_believed_as_far_as_it_fits():
    index = BlockIndex(1)
    inferred = InferredBlocks(index, TTL_S)
    inferred.learn(0, hashes_of(range(100)), 30, 0.0)
    assert index.match(hashes_of(range(100)), 1).ready.tolist() == [30]
    assert inferred.last_s(0) == 0.0
    assert inferred.last_s(1) == float("-inf")
