"""The index in small pictures, and what its documentation promises about edges."""

import struct

import numpy as np
import pytest

from vicinal.domain.tier import Tier
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.invariants import BrokenIndexError
from vicinal.kvindex.run import Run


def hashes_of(*tokens: int) -> bytes:
    return chain(struct.pack(f"<{len(tokens)}I", *tokens), 1)


LONG = hashes_of(*range(1000))


def held(index: BlockIndex, hashes: bytes, slots: int) -> list[int]:
    return index.match(hashes, slots).ready.tolist()


def expected(index: BlockIndex, hashes: bytes, slots: int) -> list[int]:
    return index.match(hashes, slots).expected.tolist()


@pytest.mark.mission("B3", "B16")
def test_a_match_says_how_much_of_a_prompt_each_endpoint_holds():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    index.store(2, ROOT, LONG[: 300 * 8])
    index.store(9, ROOT, LONG[: 10 * 8] + chain(struct.pack("<2I", 7, 7), 1, unpack(LONG)[9]))
    match = index.match(LONG, 10)
    assert match.ready.tolist() == [1000, 0, 300, 0, 0, 0, 0, 0, 0, 10]
    assert match.ready.dtype == match.expected.dtype == np.int32
    assert held(index, LONG[: 5 * 8], 10) == [5, 0, 5, 0, 0, 0, 0, 0, 0, 5]
    assert held(index, hashes_of(5, 6), 3) == [0, 0, 0]
    index.validate()


def test_slots_past_the_asked_number_are_left_out_and_nothing_known_is_no_blocks():
    index = BlockIndex(1)
    assert held(index, LONG, 3) == [0, 0, 0]
    index.store(70, ROOT, LONG)
    assert held(index, LONG, 70) == [0] * 70
    assert held(index, LONG, 71) == [0] * 70 + [1000]
    assert held(index, b"", 2) == [0, 0]


@pytest.mark.mission("B16")
def test_a_hole_ends_the_match_and_filling_the_hole_brings_the_rest_back():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    blocks = unpack(LONG)
    index.remove(0, [blocks[400]])
    assert held(index, LONG, 1) == [400]
    assert index.blocks_held(0) == 999
    assert index.holders(blocks[400]) == 0
    assert index.holders(blocks[401]) == 1
    index.validate()
    assert index.store(0, blocks[399], LONG[400 * 8 : 401 * 8])
    assert held(index, LONG, 1) == [1000]
    index.validate()


def test_what_nobody_holds_is_forgotten_but_the_path_to_what_somebody_holds_is_not():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    blocks = unpack(LONG)
    index.remove(0, blocks[500:])
    assert len(index) == 500
    index.remove(0, blocks[:499])
    assert len(index) == 500
    index.remove(0, blocks[499:500])
    assert len(index) == 0
    index.validate()


@pytest.mark.mission("B16")
def test_equal_copies_share_one_run_again_after_they_differed():
    index = BlockIndex(1, run_blocks_max=1000)
    runs = index._tree.runs
    index.store(0, ROOT, LONG)
    assert [run.blocks for run in runs()] == [1000]
    index.store(1, ROOT, LONG[: 600 * 8])
    index.expect(1, LONG[: 100 * 8])
    assert [run.blocks for run in runs()] == [100, 500, 400]
    index.unexpect(1, LONG[: 100 * 8])
    index.remove(1, unpack(LONG)[:600])
    assert [run.blocks for run in runs()] == [1000]


def test_runs_are_capped():
    index = BlockIndex(1, run_blocks_max=64)
    index.store(0, ROOT, LONG)
    assert max(run.blocks for run in index._tree.runs()) == 64
    index.validate()


def test_a_run_that_a_branch_shortens_joins_the_one_above_it():
    index = BlockIndex(1, run_blocks_max=64)
    index.store(0, ROOT, LONG[: 40 * 8])
    index.store(0, unpack(LONG)[39], LONG[40 * 8 : 100 * 8])
    assert sorted(run.blocks for run in index._tree.runs()) == [40, 60]
    index.store(0, unpack(LONG)[49], hashes_of(1))
    assert sorted(run.blocks for run in index._tree.runs()) == [1, 50, 50]
    index.validate()


def test_a_hash_is_found_where_its_block_is_and_not_across_two_others():
    hashes = bytes(range(1, 9)) + bytes(range(5, 9)) + bytes(range(1, 5)) + bytes((5, 6, 7, 8, 5, 6, 7, 8))
    index = BlockIndex(1)
    index.store(0, ROOT, hashes)
    index.remove(0, unpack(hashes)[2:])
    assert held(index, hashes, 1) == [2]
    index.validate()


def test_an_unknown_parent_stores_nothing():
    index = BlockIndex(1)
    assert not index.store(0, 12345, LONG)
    assert len(index) == index.blocks_held(0) == 0
    assert held(index, LONG, 1) == [0]


def test_a_hash_that_has_another_place_stores_nothing():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG[: 10 * 8])
    intruder = hashes_of(77) + LONG[5 * 8 : 6 * 8]
    assert not index.store(1, ROOT, intruder)
    assert not index.store(1, ROOT, hashes_of(78) * 2)
    assert (len(index), index.blocks_held(1)) == (10, 0)
    assert index.expect(1, intruder) == 1
    assert index.unexpect(1, intruder) == 1
    assert len(index) == 10
    index.validate()


@pytest.mark.mission("B16")
def test_a_planned_request_counts_as_filling_at_once_and_until_the_last_of_its_kind_ends():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG[: 10 * 8])
    assert index.expect(0, LONG) == 1000
    assert index.expect(0, LONG[: 500 * 8]) == 500
    assert (held(index, LONG, 2), expected(index, LONG, 2)) == ([10, 0], [1000, 0])
    assert index.unexpect(0, LONG) == 1000
    assert expected(index, LONG, 1) == [500]
    assert index.unexpect(0, LONG[: 500 * 8]) == 500
    assert (held(index, LONG, 1), expected(index, LONG, 1), len(index)) == ([10], [10], 10)
    index.validate()


def test_ready_and_filling_blocks_of_one_slot_add_up_to_what_is_expected():
    index = BlockIndex(1)
    index.store(3, ROOT, LONG)
    index.remove(3, unpack(LONG)[:20])
    index.expect(3, LONG[: 20 * 8])
    assert (held(index, LONG, 4)[3], expected(index, LONG, 4)[3]) == (0, 1000)


def test_taking_back_what_was_not_expected_releases_nothing():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    index.expect(1, LONG[: 10 * 8])
    assert index.unexpect(0, LONG) == 0
    assert index.unexpect(1, LONG) == 10
    assert index.unexpect(1, LONG) == 0
    index.validate()


def test_clearing_a_slot_leaves_other_slots_and_its_planned_requests():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    index.store(1, ROOT, LONG[: 40 * 8])
    index.expect(0, LONG[: 30 * 8])
    index.clear(0)
    assert (held(index, LONG, 2), expected(index, LONG, 2)) == ([0, 40], [30, 40])
    assert (index.blocks_held(0), index.blocks_held(1), len(index)) == (0, 40, 40)
    index.validate()


@pytest.mark.mission("B16")
def test_a_match_reaches_into_lower_tiers_and_ends_at_what_no_tier_has():
    index = BlockIndex(1)
    blocks = unpack(LONG)
    index.store(0, ROOT, LONG[: 100 * 8])
    index.store(0, ROOT, LONG[: 300 * 8], Tier.HOST)
    index.store(0, blocks[299], LONG[300 * 8 : 400 * 8], Tier.REMOTE)
    index.expect(1, LONG[: 50 * 8])
    index.store(1, blocks[49], LONG[50 * 8 : 60 * 8], Tier.SSD)
    match = index.match(LONG, 3)
    assert match.expected.tolist() == [100, 50, 0]
    assert [match.reach(tier).tolist() for tier in Tier] == [[100, 50, 0], [300, 50, 0], [300, 60, 0], [400, 60, 0]]
    index.remove(0, blocks[150:151], Tier.HOST)
    assert index.match(LONG, 1).reach(Tier.REMOTE).tolist() == [150]
    assert match.reach(Tier.HOST).tolist() == [300, 50, 0]  # a match is of its moment
    index.validate()


def test_what_is_in_hbm_only_is_reached_without_a_look_at_other_tiers():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    match = index.match(LONG, 2)
    assert match.reach(Tier.REMOTE) is match.expected


def test_what_a_match_says_cannot_be_written_to():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    match = index.match(LONG, 1)
    for array in (match.ready, match.expected):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_match_is_of_its_moment():
    index = BlockIndex(1)
    index.store(0, ROOT, LONG)
    match = index.match(LONG, 1)
    index.clear(0)
    assert match.ready.tolist() == [1000]
    assert match.ready_at(0) == 1000


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda run: setattr(run, "filling", {4: 1}), "mask"),
        (lambda run: (setattr(run, "holders", 3), setattr(run, "apart", (3, 0, 0, 0))), "counted"),
        (lambda run: setattr(run, "names", run.hashes), "names"),
        (lambda run: setattr(run, "apart", (5, 0, 0, 0)), "apart"),
        (lambda run: setattr(run, "hashes", run.hashes[:-8]), "finder"),
        (lambda run: setattr(run, "hashes", b""), "known by its first block"),
        (lambda run: run.children.update({b"": Run(b"", run)}), "1 to the maximum"),
    ],
)
def test_validate_names_what_is_broken(damage, complaint):
    index = BlockIndex(1, run_blocks_max=1000)
    index.store(0, ROOT, LONG)
    index.validate()
    damage(next(iter(index._tree.runs())))
    with pytest.raises(BrokenIndexError, match=complaint):
        index.validate()
