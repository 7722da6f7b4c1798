"""Who tokenizes: `fastokens` where it knows the tokenizer, else `tokenizers`, which knows them all and is slower.

Which of them it is stays visible (`name`), because a fall-back costs the gateway's core much of its time.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import fastokens
import tokenizers

from vicinal.tokenizer.errors import TokenizerError


class Backend(Protocol):
    """Text to ids and back, after a tokenizer.json."""

    @property
    def name(self) -> str: ...

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary, added tokens included."""
        ...

    def encode(self, text: str, add_special_tokens: bool) -> list[int]: ...

    def packed(self, text: str, add_special_tokens: bool) -> bytes:
        """The same ids as little-endian uint32."""
        ...

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str: ...


@dataclass(frozen=True, slots=True)
class Fastokens:
    """The fast one. It refuses a tokenizer.json that it does not know, rather than approximating it."""

    inner: fastokens.Tokenizer
    name: str = "fastokens"

    @property
    def vocab_size(self) -> int:
        return int(self.inner.vocab_size)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        ids: list[int] = self.inner.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def packed(self, text: str, add_special_tokens: bool) -> bytes:
        return bytes(self.inner.encode_batch_flat([text], add_special_tokens=add_special_tokens)[0])

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))


@dataclass(frozen=True, slots=True)
class HuggingFace:
    """The reference, from Hugging Face: the fall-back here and the oracle in the tests."""

    inner: tokenizers.Tokenizer
    name: str = "tokenizers"

    @property
    def vocab_size(self) -> int:
        return int(self.inner.get_vocab_size())

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return list(self.inner.encode(text, add_special_tokens=add_special_tokens).ids)

    def packed(self, text: str, add_special_tokens: bool) -> bytes:
        ids = self.encode(text, add_special_tokens)
        return struct.pack(f"<{len(ids)}I", *ids)

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))


def open_backend(path: Path) -> Backend:
    """The backend for the tokenizer.json at `path`. Raises TokenizerError when neither can read it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path}: {error}") from None
    try:
        return Fastokens(fastokens.Tokenizer.from_json_str(text))
    except ValueError as refused:
        try:
            return HuggingFace(tokenizers.Tokenizer.from_str(text))
        # `tokenizers` raises a bare Exception for a file that it cannot read.
        except Exception as error:
            raise TokenizerError(f"{path}: tokenizers: {error}; fastokens: {refused}") from None
