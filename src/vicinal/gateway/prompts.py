"""From what a client calls a prompt to token ids: the only form in which engines cache it."""

import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from vicinal.gateway.bodies import TokenId, decode
from vicinal.gateway.errors import invalid
from vicinal.tokenizer import probes

BYTES_PER_TOKEN = 4
"""For prompts whose tokens cannot be known here: a common figure for English text with today's vocabularies."""

_DIGITS = frozenset("0123456789")

_text = msgspec.json.Decoder(str)
_ids = msgspec.json.Decoder(list[TokenId])
_texts = msgspec.json.Decoder(list[str])
_id_lists = msgspec.json.Decoder(list[list[TokenId]])

Prompt = str | list[int]


class Tokenizer(probes.Tokenizer, Protocol):
    """What the gateway needs of a model's tokenizer (vicinal.tokenizer), beside what it compares with engines."""

    def packed(self, text: str, *, add_special_tokens: bool = True) -> bytes:
        """Token ids of `text` as little-endian uint32, as a rule with the special tokens that an engine adds to a plain
        prompt."""
        ...

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The chat as the model's template renders it. Raises ChatError when it does not fit the template."""
        ...


def decode_prompts(raw: msgspec.Raw) -> list[Prompt]:
    """The prompts of a completion: one, or one per element of a list of them. Raises ApiError 400 for `prompt`."""
    first, second = _opening(memoryview(raw))
    prompts: list[Prompt]
    if first == '"':
        prompts = [decode(_text, raw, field="prompt")]
    elif first == "[" and second == '"':
        prompts = [*decode(_texts, raw, field="prompt")]
    elif first == "[" and second == "[":
        prompts = [*decode(_id_lists, raw, field="prompt")]
    elif first == "[":
        prompts = [decode(_ids, raw, field="prompt")]
    else:
        raise invalid(
            "prompt must be a string, a list of token ids, or a list of either",
            param="prompt",
        )
    if not prompts or any(isinstance(p, list) and not p for p in prompts):
        raise invalid("prompt must not be empty", param="prompt")
    return prompts


def counted_ids(raw: msgspec.Raw, above: int) -> int | None:
    """How many ids `prompt` has, if it is one list of more than `above` ids; None where that is not plain to see.

    Found by counting commas, many times faster than decoding. A list that is not of ids may be counted too: it is
    refused for its length, and would have been for what is in it.
    """
    if len(memoryview(raw)) <= 2 * above:  # an id and its comma are two bytes at least
        return None
    first, second = _opening(memoryview(raw))
    if first != "[" or second not in _DIGITS:
        return None
    count = bytes(raw).count(b",") + 1
    return count if count > above else None


def pack(ids: list[int]) -> bytes:
    """Token ids as little-endian uint32, the form that hashes are chained over."""
    packed = array("I", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def text_only(messages: list[dict[str, Any]]) -> bool:
    """No message has a part that is not text: what an image becomes in the prompt is the engine's secret."""
    parts = (part for message in messages if isinstance(message.get("content"), list) for part in message["content"])
    return all(isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text") for part in parts)


def _opening(raw: memoryview) -> tuple[str, str]:
    """The first two characters of a JSON value that are not white space; empty where there are none."""
    head = "".join(bytes(raw[:64]).decode("latin-1").split())
    return head[:1], head[1:2]
