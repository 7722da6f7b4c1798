"""Block hashes: chained, continuable, salted, and stable."""

import struct

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from vicinal.kvindex.hashing import ROOT, chain, coarse, unpack

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=40)
BLOCK_TOKENS = st.sampled_from((1, 2, 3, 16))


def packed(tokens: list[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


@given(TOKENS, BLOCK_TOKENS, st.integers(0, 2**64 - 1), st.lists(st.binary(max_size=5), max_size=30))
def test_each_full_block_is_hashed_with_its_keys_from_its_parent(tokens, block_tokens, parent, keys):
    expected = []
    above = parent
    for number in range(len(tokens) // block_tokens):
        digest = xxhash.xxh3_64(seed=above)
        digest.update(packed(tokens[number * block_tokens : (number + 1) * block_tokens]))
        digest.update(keys[number] if number < len(keys) else b"")
        above = digest.intdigest()
        expected.append(above)
    assert unpack(chain(packed(tokens), block_tokens, parent, keys)) == tuple(expected)
    assert unpack(chain(memoryview(packed(tokens)), block_tokens, parent, tuple(keys))) == tuple(expected)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=40), BLOCK_TOKENS, st.data())
def test_a_chain_can_be_continued_from_any_of_its_blocks(tokens, block_tokens, data):
    whole = chain(packed(tokens), block_tokens)
    cut = data.draw(st.integers(0, len(tokens) // block_tokens))
    parent = unpack(whole)[cut - 1] if cut else ROOT
    assert whole[: cut * 8] + chain(packed(tokens[cut * block_tokens :]), block_tokens, parent) == whole


def test_hashes_are_the_same_in_every_process_and_version():
    assert unpack(chain(packed([1, 2, 3, 4]), 2, extra_keys=(b"salt",))) == (6985593207833391090, 5176970489617552877)


def test_a_salt_on_the_first_block_changes_all_blocks():
    plain = unpack(chain(packed(list(range(64))), 16))
    salted = unpack(chain(packed(list(range(64))), 16, extra_keys=(b"group-a",)))
    assert len(salted) == 4
    assert not set(plain) & set(salted)


def test_a_token_that_does_not_fit_32_bits_cannot_be_half_read():
    with pytest.raises(struct.error):
        packed([2**32])
    assert chain(packed([1])[:3], 1) == b""


@given(
    blocks=st.integers(0, 60),
    block_tokens=st.sampled_from((1, 5, 16, 32, 100, 784)),
    every=st.sampled_from((32, 100, 512)),
)
def test_coarse_hashes_name_the_blocks_in_which_stretches_end(blocks, block_tokens, every):
    hashes = chain(packed(list(range(blocks))), 1)
    ending = [
        block
        for number, block in enumerate(unpack(hashes))
        if (number + 1) * block_tokens // every > number * block_tokens // every
    ]
    assert coarse(hashes, block_tokens, every) == tuple(ending)


def test_a_prompt_of_1200_tokens_has_two_coarse_hashes_by_default():
    hashes = chain(packed(list(range(1200))), 16)
    assert coarse(hashes, 16) == (unpack(hashes)[31], unpack(hashes)[63])
