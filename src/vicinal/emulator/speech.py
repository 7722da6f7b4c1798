"""What an emulated model says: words that depend on the whole prompt (and the seed) and on nothing else.

Token number i is word[mix(hash of prompt, seed, i)], with the mixing function of SplitMix64. So a leg that generates
one token says the first word of what the whole request says, and disaggregated text equals aggregated text.

A word is a token that stands for " letters" and is found again when its text is tokenized. A conversation's next turn
then has the ids that the engine has generated and cached, although it comes back as text. Special tokens are no words,
so a model never says its end: its output ends where it was told to.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

_WORD = re.compile(r" [A-Za-z]{2,}")
_WORDS_MIN = 16
_STEP = 0x9E3779B97F4A7C15


class TextCodec(Protocol):
    """The part of `vicinal.tokenizer.Tokenizer` that an engine needs."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def special_ids(self) -> frozenset[int]: ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]: ...

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class Speech:
    """Generates tokens and knows their text. Made once for all engines of a tokenizer."""

    def __init__(self, codec: TextCodec) -> None:
        texts = {i: codec.decode([i]) for i in range(codec.vocab_size) if i not in codec.special_ids}
        words = [i for i, t in texts.items() if _WORD.fullmatch(t) and codec.encode(t, add_special_tokens=False) == [i]]
        if len(words) < _WORDS_MIN:
            words = [i for i, text in texts.items() if text and "\ufffd" not in text]
        if not words:
            raise ValueError("the tokenizer has no token that stands for text of its own")
        self._words = np.array(words, dtype=np.uint32)
        self._texts = {i: texts[i] for i in words}
        self._json = {i: msgspec.json.encode(texts[i]) for i in words}

    def tokens(self, prompt: bytes, count: int, seed: int = 0) -> bytes:
        """The first `count` tokens of the answer to a prompt; both packed as little-endian uint32."""
        start = np.uint64(xxh3_64_intdigest(prompt, seed & 0xFFFFFFFFFFFFFFFF))
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP) + start
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        said: bytes = self._words[z % np.uint64(len(self._words))].astype("<u4").tobytes()
        return said

    def text(self, tokens: Sequence[int]) -> str:
        texts = self._texts
        return "".join([texts[token] for token in tokens])

    def json_text(self, token: int) -> bytes:
        """A word as a JSON string, quotes included."""
        return self._json[token]
