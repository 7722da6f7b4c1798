"""Prompts whose tokens cannot be known, named by their text: equal beginnings of text are equal beginnings of tokens.

A prompt becomes canonical bytes such that a longer conversation continues the bytes of a shorter one. They are hashed
like token ids (kvindex/hashing.py), in stretches as long as a block's ids would be, under a root of their own: a hash
of text never stands where a hash of tokens could be meant. What is found this way was inferred from what we sent, never
told by an engine, and is in estimated tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from vicinal.gateway.bodies import ChatBody
from vicinal.gateway.prompts import BYTES_PER_TOKEN
from vicinal.kvindex.hashing import TOKEN_BYTES, chain

TEXT_ROOT = xxh3_64_intdigest(b"vicinal: chunks of text, not token ids")
"""The parent of every text's first stretch."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def text_hashes(text: bytes, block_tokens: int, extra_keys: Sequence[bytes] = ()) -> bytes:
    """Hashes of the full stretches of `text`, packed. A stretch stands for `block_tokens` estimated tokens."""
    # A stretch of block_tokens * BYTES_PER_TOKEN bytes is what `chain` cuts, because ids have as many bytes.
    assert BYTES_PER_TOKEN == TOKEN_BYTES
    return chain(text, block_tokens, TEXT_ROOT, extra_keys)


def canonical_chat(body: ChatBody) -> bytes:
    """A chat's messages in order, behind whatever else makes its beginning: tools, a template, its arguments."""
    before = {
        "tools": body.tools,
        "chat_template": body.chat_template,
        "chat_template_kwargs": body.chat_template_kwargs,
        "documents": body.documents,
        "reasoning_effort": body.reasoning_effort,
    }
    said = {name: value for name, value in before.items() if value is not None}
    lines = [_encode(said)] if said else []
    lines += [_encode(_canonical(message)) for message in body.messages]
    return b"\n".join(lines)


def _canonical(message: Mapping[str, Any]) -> dict[str, Any]:
    """A text and a list of one text part are the same; what is no text is named by its hash, however long it is."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    return {**message, "content": [_part(part) for part in parts]}


def _part(part: Any) -> Any:
    if isinstance(part, Mapping) and part.get("type") == "text":
        return part.get("text")
    return part if isinstance(part, str) else {"hash": xxh3_128_hexdigest(_encode(part))}
