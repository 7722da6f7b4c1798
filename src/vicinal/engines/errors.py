"""Whose fault is it? Error answers and error events, by a dialect's rules."""

from dataclasses import dataclass
from typing import Any

import msgspec

_PASSING_STATUS = (408, 425, 429)
_NOT_THE_CLIENTS_STATUS = (404, 405, *_PASSING_STATUS)
_STREAM_ERROR_PREFIX = b'data: {"error"'
_CLIENT_FAULT_TYPES = frozenset({"invalid_request_error", "BadRequestError", "Bad Request"})

_anything = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class EngineError:
    """An error answer. `client_fault`: the request itself is wrong, so every endpoint would say the same.

    `status` is what the client should see for it (an over-long prompt answered with 500 becomes 400).
    """

    status: int
    client_fault: bool
    message: str


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """`too_long_marks` are words, in lower case, by which an engine says that a prompt is too long."""

    too_long_marks: tuple[str, ...]

    def of_answer(self, status: int, body: bytes) -> EngineError:
        """Whose fault is an error answer? 4xx is the client's, except those that speak of the engine.

        Not the client's: 404 and 405 (the gateway knows the model and the path; so the engine is not what the
        configuration says), 408, 425 and 429 (another endpoint may be free). A 5xx that complains of length *is* the
        client's: some builds answer 500 for an over-long prompt.
        """
        message = _message(body)
        if status >= 500 and self._says_too_long(message):
            return EngineError(400, True, message)
        client_fault = 400 <= status < 500 and status not in _NOT_THE_CLIENTS_STATUS
        return EngineError(status, client_fault, message or f"HTTP {status}")

    def of_event(self, event: bytes) -> EngineError | None:
        """The error that a stream's event states, or None for an ordinary event.

        Engines open a stream with status 200 before they know the first token, so that what fails afterwards comes as
        an event `data: {"error": {…, "code": 500}}`. OpenAI's own `code` is a word; then `type` tells.
        """
        if not event.startswith(_STREAM_ERROR_PREFIX):
            return None
        payload = event[len(b"data: ") :].split(b"\n", 1)[0]
        code = 500
        try:
            stated = _anything.decode(payload)["error"]
        except (msgspec.DecodeError, RecursionError, KeyError):
            stated = None  # an error event that cannot be read is still an error: 500
        if isinstance(stated, dict):
            if isinstance(stated.get("code"), int):
                code = stated["code"]
            elif stated.get("type") in _CLIENT_FAULT_TYPES:
                code = 400
        return self.of_answer(code, payload)

    def at_end(self, tail: bytes) -> EngineError | None:
        """The error that the last bytes of a stream state, or None. An engine that dies says so, then `[DONE]`."""
        start = tail.rfind(b"\n" + _STREAM_ERROR_PREFIX)
        return None if start < 0 else self.of_event(tail[start + 1 :])

    def _says_too_long(self, message: str) -> bool:
        lowered = message.lower()
        return any(mark in lowered for mark in self.too_long_marks)


def _message(body: bytes) -> str:
    """The text of an error body: OpenAI's shape, the older flat one, FastAPI's `detail`, or the first bytes."""
    try:
        decoded = _anything.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body[:500].decode("utf-8", "replace")
    stated = decoded.get("error", decoded)
    if isinstance(stated, dict):
        stated = stated.get("message", stated.get("detail", ""))
    return stated if isinstance(stated, str) else str(stated)
