"""Requests to vLLM and what it answers: the bodies of the two legs of a NIXL hand-off, usage, errors.

The hand-off is pulled by the decode side. The prefill leg is the client's body cut down to one token, with
`kv_transfer_params` that ask for a hand-off; its answer carries params that name the blocks. The decode leg is the
client's body with *these params verbatim*: they belong to exactly this prompt, and to one use.

A body is changed by splicing. Its top-level values stay the client's bytes (`msgspec.Raw`), so a prompt of 60 KB is
scanned for its end and copied once, never decoded and encoded again.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

HANDOFF_KEY = "kv_transfer_params"

_ASK_FOR_HANDOFF = (
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,'
    b'"remote_block_ids":null,"remote_host":null,"remote_port":null}'
)
_ONE = b"1"
_DROPPED_FOR_PREFILL = ("stream_options", "min_tokens")
_TOO_LONG_MARKS = ("maximum context length", "maximum model length", "max_model_len", "maximum input length")
_PASSING_STATUS = (408, 425, 429)
_NOT_THE_CLIENTS_STATUS = (404, 405, *_PASSING_STATUS)
_STREAM_ERROR_PREFIX = b'data: {"error"'
_DONE_EVENT = b"data: [DONE]"


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _UsageBody(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _UsageBody | None = None
    kv_transfer_params: msgspec.Raw = msgspec.Raw()


class _UsageOnly(msgspec.Struct):
    usage: _UsageBody | None = None


class _CachedInParams(msgspec.Struct):
    remote_prefill_cached_tokens: int | None = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_answer = msgspec.json.Decoder(_Answer)
_usage_only = msgspec.json.Decoder(_UsageOnly)
_cached_in_params = msgspec.json.Decoder(_CachedInParams)
_anything = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as an engine states them; None where it is silent."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class PrefillAnswer:
    """What came back from a prefill leg. `kv_transfer_params` are the engine's bytes, or None when it gave none."""

    kv_transfer_params: bytes | None
    finish_reason: str | None
    usage: Usage

    @property
    def handed_off(self) -> bool:
        """There is something for a decode side to pull: only a leg cut off by its length leaves blocks behind."""
        return self.kv_transfer_params is not None and self.finish_reason == "length"


@dataclass(frozen=True, slots=True)
class EngineError:
    """An error answer. `client_fault`: the request itself is wrong, so every endpoint would say the same.

    `status` is what the client should see for it (an over-long prompt answered with 500 becomes 400).
    """

    status: int
    client_fault: bool
    message: str


def prefill_body(body: bytes) -> bytes:
    """The prefill leg of `body` (a JSON object): one token, not streamed, asking for a hand-off.

    Raises ValueError (msgspec.DecodeError) when `body` is not a JSON object.
    """
    fields: dict[str, msgspec.Raw | bytes] = dict(_fields.decode(body))
    for name in _DROPPED_FOR_PREFILL:
        fields.pop(name, None)
    fields["stream"] = b"false"
    fields["max_tokens"] = _ONE
    if "max_completion_tokens" in fields:
        fields["max_completion_tokens"] = _ONE
    fields[HANDOFF_KEY] = _ASK_FOR_HANDOFF
    return _join(fields)


def decode_body(body: bytes, kv_transfer_params: bytes) -> bytes:
    """The decode leg of `body` (a JSON object): all of it, and `kv_transfer_params` byte for byte."""
    fields: dict[str, msgspec.Raw | bytes] = dict(_fields.decode(body))
    fields[HANDOFF_KEY] = kv_transfer_params
    return _join(fields)


def parse_prefill(body: bytes) -> PrefillAnswer:
    """Read the answer of a prefill leg. Raises ValueError when it is not an answer of the OpenAI shape.

    Reuse is `usage.prompt_tokens_details.cached_tokens`, or, from engines that do not give details, what the
    hand-off params say of it.
    """
    try:
        answer = _answer.decode(body)
    except RecursionError:
        raise ValueError("the engine's answer is nested too deeply") from None
    if not answer.choices:
        raise ValueError("the engine's answer has no choices")
    params = _present(answer.kv_transfer_params)
    usage = _usage(answer.usage)
    if usage.cached_tokens is None and params is not None:
        cached = _cached_in_params.decode(params).remote_prefill_cached_tokens
        usage = Usage(usage.prompt_tokens, usage.completion_tokens, cached)
    return PrefillAnswer(params, answer.choices[0].finish_reason, usage)


def whole_usage(body: bytes) -> Usage:
    """Usage of an answer that was not streamed; all None when the body states none or cannot be read."""
    try:
        return _usage(_usage_only.decode(body).usage)
    except (msgspec.DecodeError, RecursionError):
        return Usage()


def stream_usage(tail: bytes) -> Usage:
    """Usage from the last bytes of a stream: the last event that states any. All None when there is none."""
    for line in reversed(tail.split(b"\n")):
        if line.startswith(b"data: {") and b'"usage"' in line:
            usage = whole_usage(line[len(b"data: ") :])
            if usage != Usage():
                return usage
    return Usage()


def stream_is_complete(tail: bytes) -> bool:
    """True when the last bytes of a stream hold its closing `[DONE]` event."""
    return _DONE_EVENT in tail[-64:]


def stream_end_error(tail: bytes) -> EngineError | None:
    """The error that the last bytes of a stream state, or None. An engine that dies says so, and then `[DONE]`."""
    start = tail.rfind(b"\n" + _STREAM_ERROR_PREFIX)
    return None if start < 0 else stream_error(tail[start + 1 :])


def classify_error(status: int, body: bytes) -> EngineError:
    """Whose fault is an error answer? 4xx is the client's, except those that speak of the engine.

    Not the client's: 404 and 405 (the gateway knows the model and the path; so the engine is not what the
    configuration says), 408, 425 and 429 (another endpoint may be free). A 5xx that complains of length *is* the
    client's: some builds answer 500 for an over-long prompt.
    """
    message = _message(body)
    if status >= 500 and any(mark in message for mark in _TOO_LONG_MARKS):
        return EngineError(400, True, message)
    client_fault = 400 <= status < 500 and status not in _NOT_THE_CLIENTS_STATUS
    return EngineError(status, client_fault, message or f"HTTP {status}")


def stream_error(event: bytes) -> EngineError | None:
    """The error that a stream's event states, or None for an ordinary event.

    vLLM opens a stream with status 200 before it knows the first token, so that what fails afterwards comes as an
    event `data: {"error": {…, "code": 500}}`.
    """
    if not event.startswith(_STREAM_ERROR_PREFIX):
        return None
    payload = event[len(b"data: ") :].split(b"\n", 1)[0]
    code = 500
    try:
        stated = _anything.decode(payload)["error"]
        if isinstance(stated, dict) and isinstance(stated.get("code"), int):
            code = stated["code"]
    except (msgspec.DecodeError, RecursionError, KeyError):
        pass  # an error event that cannot be read is still an error: 500
    return classify_error(code, payload)


def _join(fields: dict[str, msgspec.Raw | bytes]) -> bytes:
    parts: list[msgspec.Raw | bytes] = []
    for name, value in fields.items():
        parts += (b",", msgspec.json.encode(name), b":", value)
    parts[0] = b"{"
    parts.append(b"}")
    return b"".join(parts)


def _present(raw: msgspec.Raw) -> bytes | None:
    value = bytes(raw)
    return None if value in (b"", b"null", b"{}") else value


def _usage(body: _UsageBody | None) -> Usage:
    if body is None:
        return Usage()
    details = body.prompt_tokens_details
    return Usage(body.prompt_tokens, body.completion_tokens, None if details is None else details.cached_tokens)


def _message(body: bytes) -> str:
    """The text of an error body: OpenAI's shape, vLLM's older flat one, FastAPI's `detail`, or the first bytes."""
    try:
        decoded = _anything.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body[:500].decode("utf-8", "replace")
    stated = decoded.get("error", decoded)
    if isinstance(stated, dict):
        stated = stated.get("message", stated.get("detail", ""))
    return stated if isinstance(stated, str) else str(stated)
