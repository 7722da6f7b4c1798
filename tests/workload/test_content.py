"""Names of blocks made from recipes: equal exactly where the tokens of the prompts are."""

from itertools import takewhile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vicinal.kvindex.hashing import chain, unpack
from vicinal.workload.arrival import Arrival, Turn
from vicinal.workload.content import block_names
from vicinal.workload.prompt import Literal, Piece, Prompt, Vocabulary

VOCABULARY = Vocabulary(0, 1 << 30)
SHARED = (Piece(1, 40), Piece(2, 7), Piece(3, 64))


def _shared(a: list[int], b: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _token_hashes(prompt: Prompt, block_tokens: int) -> list[int]:
    return unpack(chain(prompt.token_ids().astype("<u4").tobytes(), block_tokens))


@given(
    common=st.integers(0, 3),
    own=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    block_tokens=st.sampled_from((1, 3, 16, 64)),
)
def test_names_are_shared_as_far_as_tokens_are(common: int, own: tuple[int, int], block_tokens: int) -> None:
    prompts = [Prompt((*SHARED[:common], Piece(10 + which, tokens)), VOCABULARY) for which, tokens in enumerate(own)]
    names = [block_names(prompt.pieces, block_tokens) for prompt in prompts]
    hashes = [_token_hashes(prompt, block_tokens) for prompt in prompts]

    assert [len(each) for each in names] == [prompt.tokens // block_tokens for prompt in prompts]
    assert _shared(*names) == _shared(*hashes)


def test_a_longer_piece_of_a_stream_begins_with_the_shorter_one() -> None:
    short, long = block_names([Piece(5, 100)], 16), block_names([Piece(5, 1000)], 16)

    assert long[: len(short)] == short
    assert len(set(long)) == len(long)


def test_literal_tokens_are_named_by_what_they_are() -> None:
    ids = np.arange(64, dtype="<u4")
    literal = Literal(ids.tobytes())

    assert Prompt((literal,), VOCABULARY).token_ids().tolist() == ids.tolist()
    assert block_names([literal], 16) == block_names([Literal(ids[:24].tobytes()), Literal(ids[24:].tobytes())], 16)
    assert block_names([literal], 16)[:2] == block_names([Literal(ids[:40].tobytes())], 16)


def test_the_next_turn_waits_for_the_answer() -> None:
    turns = tuple(Turn(2.0, Prompt((Piece(n, 10),), VOCABULARY), n) for n in (1, 2))
    first = Arrival(1.0, Prompt((Piece(0, 10),), VOCABULARY), 5, session="s", tenant="t", later=turns)

    second = first.following(10.0)
    assert second is not None
    assert (second.at_s, second.output_tokens, second.session, second.tenant) == (12.0, 1, "s", "t")
    third = second.following(20.0)
    assert third is not None
    assert (third.at_s, third.output_tokens, third.later) == (22.0, 2, ())
    assert third.following(30.0) is None
