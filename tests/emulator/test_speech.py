"""What emulated models say depends on the prompt and nothing else, and survives being tokenized again."""

from array import array
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.emulator.speech import Speech


@pytest.fixture(scope="module")
def speech(codec: Any) -> Speech:
    return Speech(codec)


def ids(packed: bytes) -> list[int]:
    tokens = array("I")
    tokens.frombytes(packed)
    return tokens.tolist()


@given(prompt=st.binary(min_size=4, max_size=64), short=st.integers(1, 20), more=st.integers(0, 20))
def test_a_short_answer_is_the_beginning_of_a_long_one(speech: Speech, prompt: bytes, short: int, more: int) -> None:
    assert speech.tokens(prompt, short + more)[: 4 * short] == speech.tokens(prompt, short)


def test_prompts_and_seeds_matter(speech: Speech) -> None:
    answers = {speech.tokens(b"abcd", 20), speech.tokens(b"abce", 20), speech.tokens(b"abcd", 20, seed=1)}
    assert len(answers) == 3
    assert speech.tokens(b"abcd", 20, seed=-1) == speech.tokens(b"abcd", 20, seed=2**64 - 1)


def test_an_answer_is_found_again_when_its_text_is_tokenized(speech: Speech, codec: Any) -> None:
    said = ids(speech.tokens(b"abcd", 500))
    assert codec.encode(speech.text(said), add_special_tokens=False) == said
    assert not set(said) & codec.special_ids
    assert len(set(said)) > 50
    assert b"".join(speech.json_text(token)[1:-1] for token in said).decode() == speech.text(said)


class Letters:
    """A tokenizer without words: token i is the letter i, token 0 is special."""

    vocab_size = 4
    special_ids = frozenset({0})

    def __init__(self, letters: str) -> None:
        self._letters = letters

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [self._letters.index(letter) for letter in text]

    def encode_chat(self, messages: Any, tools: Any = None) -> list[int]:
        return []

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._letters[i] for i in ids)


def test_without_words_any_token_of_its_own_text_will_do() -> None:
    assert set(ids(Speech(Letters("<ab\ufffd")).tokens(b"abcd", 50))) == {1, 2}
    with pytest.raises(ValueError, match="no token"):
        Speech(Letters("<\ufffd\ufffd\ufffd"))
