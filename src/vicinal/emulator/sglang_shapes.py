"""Answers in SGLang's shapes: what differs from vLLM's are the keys around the text."""

from typing import Any

import msgspec

from vicinal.emulator.bodies import HandOff
from vicinal.emulator.shapes import Heading, StreamShape, Usage

_encode = msgspec.json.encode


class SGLangHeading(Heading):
    """What all parts of one answer begin with."""

    def whole(self, text: str, reason: str, usage: Usage, hand_off: HandOff | None) -> bytes:  # noqa: ARG002
        choice: dict[str, Any] = {"index": 0}
        if self.chat:
            choice["message"] = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": reason, "matched_stop": None}
        answer = self.fields_of("chat.completion" if self.chat else "text_completion")
        return _encode(
            answer | {"choices": [choice], "usage": _fields(usage), "metadata": {"weight_version": "default"}}
        )


class SGLangStreamShape(StreamShape):
    """The events of one streamed answer."""

    chat_tail = b'},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}\n\n'
    chat_end = b'},"logprobs":null,"finish_reason":"%b","matched_stop":null}],"usage":null}\n\n'
    text_tail = b',"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}\n\n'
    text_end = b',"logprobs":null,"finish_reason":"%b","matched_stop":null}],"usage":null}\n\n'
    chat_opening = (
        b',"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null'
        + chat_tail
    )

    def usage(self, usage: Usage) -> bytes:
        return self._begin + b"," + _encode({"choices": [], "usage": _fields(usage)})[1:] + b"\n\n"


def _fields(usage: Usage) -> dict[str, Any]:
    """With `--enable-cache-report`."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "completion_tokens": usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "reasoning_tokens": 0,
    }


def sglang_model_list(model: str, created: int, tokens_max: int) -> bytes:
    card = {
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": "sglang",
        "root": model,
        "parent": None,
        "max_model_len": tokens_max,
    }
    return _encode({"object": "list", "data": [card]})
