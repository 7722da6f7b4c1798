"""Prompts share tokens exactly where their recipes share streams, and stay inside their vocabulary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.workload.prompt import Piece, Prompt, Vocabulary

vocabularies = st.integers(0, 300).flatmap(
    lambda first: st.integers(first + 1, first + 200_000).map(lambda end: Vocabulary(first, end))
)


@settings(deadline=None)
@given(vocabularies, st.integers(0, 2**80), st.integers(0, 600), st.integers(0, 600))
def test_a_shorter_draw_is_a_prefix_of_a_longer_one(vocabulary, stream, tokens, more) -> None:
    short, long = vocabulary.draw(stream, tokens), vocabulary.draw(stream, tokens + more)
    assert np.array_equal(short, long[:tokens])
    assert short.dtype == np.uint32
    assert all(vocabulary.first <= token < vocabulary.end for token in long.tolist())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=6))
def test_a_prompt_is_its_pieces_one_after_the_other(pieces) -> None:
    vocabulary = Vocabulary(5, 1024)
    prompt = Prompt(tuple(Piece(*piece) for piece in pieces), vocabulary)
    ids = prompt.token_ids()
    assert ids.tolist() == [token for piece in pieces for token in vocabulary.draw(*piece).tolist()]
    assert ids.shape == (prompt.tokens,)
    assert ids.dtype == np.uint32


@settings(deadline=None)
@given(st.integers(1, 60), st.sets(st.integers(-3, 70)))
def test_the_vocabulary_is_the_longest_run_without_special_ids(size, special_ids) -> None:
    plain = [token for token in range(size) if token not in special_ids]
    if not plain:
        with pytest.raises(ValueError):
            Vocabulary.without(size, special_ids)
        return
    runs = [
        (first, end)
        for first in range(size)
        for end in range(first + 1, size + 1)
        if not special_ids & set(range(first, end))
    ]
    vocabulary = Vocabulary.without(size, special_ids)
    assert (vocabulary.first, vocabulary.end) in runs
    assert len(vocabulary) == max(end - first for first, end in runs)


def test_distinct_streams_share_no_block() -> None:
    vocabulary = Vocabulary(5, 1024)
    blocks = [tuple(vocabulary.draw(stream, 16).tolist()) for stream in range(2000)]
    assert len(set(blocks)) == 2000


def test_a_vocabulary_without_ids_is_refused() -> None:
    with pytest.raises(ValueError, match="no ids"):
        Vocabulary(7, 7)
