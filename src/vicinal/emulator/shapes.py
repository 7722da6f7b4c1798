"""Answers in vLLM's shapes, key for key as recorded from vLLM 0.32.

A stream has one event per token. Between two events of a stream only the token's text differs, so everything around it
is encoded once per answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from vicinal.emulator.bodies import HandOff
from vicinal.emulator.speech import Speech

_encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int

    def fields(self, brief: bool) -> dict[str, Any]:
        """`brief` is the form at the end of a stream, which leaves out what is null."""
        details: dict[str, Any] = {"cached_tokens": self.cached_tokens}
        created = None if self.cached_tokens else 0
        if not brief:
            details |= {"created_cache_tokens": created, "multimodal_tokens": None}
        elif created is not None:
            details |= {"created_cache_tokens": created}
        usage = {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.output_tokens,
            "completion_tokens": self.output_tokens,
            "prompt_tokens_details": details,
        }
        return usage if brief else usage | {"completion_tokens_details": None}


@dataclass(frozen=True, slots=True)
class Heading:
    """What all parts of one answer begin with."""

    id: str
    created: int
    model: str
    fingerprint: str
    chat: bool

    def whole(self, text: str, reason: str, usage: Usage, hand_off: HandOff | None) -> bytes:
        """The answer to a request that does not stream."""
        choice: dict[str, Any] = {"index": 0}
        if self.chat:
            silent = ("refusal", "annotations", "audio", "function_call", "reasoning")
            choice["message"] = {"role": "assistant", "content": text} | dict.fromkeys(silent)
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": reason, "stop_reason": None, "token_ids": None}
        prompt = {"prompt_logprobs": None, "prompt_token_ids": None}
        choice |= {"routed_experts": None} if self.chat else prompt | {"routed_experts": None}
        answer = self.fields_of("chat.completion" if self.chat else "text_completion") | {
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": self.fingerprint,
            "usage": usage.fields(brief=False),
        }
        answer |= prompt | {"prompt_text": None} if self.chat else {}
        return _encode(answer | {"kv_transfer_params": hand_off, "ec_transfer_params": None, "metrics": None})

    def fields_of(self, kind: str) -> dict[str, Any]:
        """What every part of the answer begins with; `kind` is its `object`."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


class StreamShape:
    """The events of one streamed answer, as bytes to be written in order.

    `chat_tail` and `text_tail` are what follows a token's text, `*_end` likewise where that token is the last.
    """

    chat_tail = b'},"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n'
    chat_end = b'},"logprobs":null,"finish_reason":"%b","stop_reason":null,"token_ids":null}]}\n\n'
    text_tail = (
        b',"logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}\n\n'
    )
    text_end = (
        b',"logprobs":null,"finish_reason":"%b","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}\n\n'
    )
    chat_opening = (
        b',"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,'
        b'"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}\n\n'
    )

    def __init__(self, heading: Heading, speech: Speech) -> None:
        self._heading = heading
        self._speech = speech
        kind = "chat.completion.chunk" if heading.chat else "text_completion"
        self._begin = b"data: " + _encode(heading.fields_of(kind))[:-1]
        field = b'"delta":{"content":' if heading.chat else b'"text":'
        self._before = self._begin + b',"choices":[{"index":0,' + field
        self._after = self.chat_tail if heading.chat else self.text_tail

    def opening(self) -> bytes:
        """What goes before the first token: a chat's first event names the role."""
        return self._begin + self.chat_opening if self._heading.chat else b""

    def tokens(self, tokens: Sequence[int]) -> bytes:
        """One event for each token that is not the last."""
        before, after, word = self._before, self._after, self._speech.json_text
        return b"".join([before + word(token) + after for token in tokens])

    def last(self, token: int, reason: str) -> bytes:
        """The event that ends the text: with its last token, and with the reason."""
        end = self.chat_end if self._heading.chat else self.text_end
        return self._before + self._speech.json_text(token) + end % reason.encode()

    def usage(self, usage: Usage) -> bytes:
        tail = {"choices": [], "usage": usage.fields(brief=True), "system_fingerprint": self._heading.fingerprint}
        return self._begin + b"," + _encode(tail)[1:] + b"\n\n"


def model_list(model: str, created: int, tokens_max: int) -> bytes:
    permission = {
        "id": "modelperm-emulated",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": model,
        "parent": None,
        "max_model_len": tokens_max,
        "permission": [permission],
    }
    return _encode({"object": "list", "data": [card]})
