"""A whole answer, told as the stream that its client asked for.

Needed where a prefill leg turns out to be the answer (the first token ended it): that leg is never streamed.
"""

from typing import Any

import msgspec

_answer = msgspec.json.Decoder(dict[str, Any])


def as_stream(body: bytes, *, chat: bool, include_usage: bool) -> bytes:
    """The server-sent events for the answer `body`, `[DONE]` included. Raises ValueError when it is no JSON object."""
    answer = _answer.decode(body)
    head = {name: answer.get(name) for name in ("id", "object", "created", "model")}
    if chat:
        head["object"] = "chat.completion.chunk"
    events: list[dict[str, Any]] = []
    for choice in answer.get("choices", ()):
        if chat:
            events += [head | {"choices": [part]} for part in _chat_parts(choice)]
        else:
            events.append(head | {"choices": [choice]})
    if include_usage:
        events.append(head | {"choices": [], "usage": answer.get("usage")})
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events) + b"data: [DONE]\n\n"


def _chat_parts(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """A chat choice as deltas: the role, then all the rest with the reason for the end."""
    message: dict[str, Any] = choice.get("message") or {}
    opening = {"role": message.get("role", "assistant"), "content": ""}
    delta = {name: value for name, value in message.items() if name != "role" and value is not None}
    if "tool_calls" in delta:
        delta["tool_calls"] = [call | {"index": i} for i, call in enumerate(delta["tool_calls"])]
    closing = {name: value for name, value in choice.items() if name != "message"} | {"delta": delta}
    return [
        {"index": choice.get("index", 0), "delta": opening, "logprobs": None, "finish_reason": None},
        closing,
    ]
