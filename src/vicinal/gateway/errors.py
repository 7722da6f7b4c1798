"""Errors as OpenAI's clients know them: `{"error": {"message", "type", "param", "code"}}`, with headers for machines.

`code` is always one of three closed lists: an `Ending` of the core, an `ErrorCode` of a route, or a `RefusalKind` of a
request that could not be read. What each means is written in docs/outcomes.md (gateway/outcomes.py).
"""

import math
import re

import msgspec

from vicinal.domain.outcome import DETAIL_CHARS_MAX, Meaning, Outcome
from vicinal.gateway.codes import ErrorCode

_TYPES = {
    400: "invalid_request_error",
    404: "not_found_error",
    429: "rate_limit_error",
    499: "client_closed_request",
    502: "upstream_error",
    503: "service_unavailable_error",
}
_NO_WORD = re.compile(r"[^A-Za-z0-9._:/-]")
AGAIN_S_MIN = 1
"""The least that `Retry-After` says: 0 would be an invitation to come back at once, together with everybody else."""


class AnswerError(Exception):
    """An answer that is an error, as somebody stated it: the core, or an engine."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> bytes:
        return error_body(self.status, self.message, param=self.param, code=self.code)


class ApiError(AnswerError):
    """A request that is refused before the core sees it. `param` names the field."""

    def __init__(self, code: ErrorCode, message: str, *, param: str | None = None) -> None:
        super().__init__(code.meaning.status, message, param=param, code=code)
        self.reason = code

    def header_lines(self) -> bytes:
        return header_lines(self.reason.meaning, self.reason)


def invalid(message: str, *, param: str | None = None) -> ApiError:
    """What is wrong with a field of a request, or with the request as a whole."""
    return ApiError(ErrorCode.INVALID_REQUEST, message, param=param)


def error_body(status: int, message: str, *, param: str | None = None, code: str | None = None) -> bytes:
    """The JSON body of an error with HTTP status `status`."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def outcome_body(outcome: Outcome, words: str = "") -> bytes:
    """The JSON body for a request that the core ended; its `code` is the ending. `words` are those of the engine that
    failed it last: they may quote the request, so its client reads them and nobody else."""
    message = outcome.reason or outcome.ending.meaning.text
    if words:
        message = f"{message}; an engine said: {words}"
    return error_body(outcome.ending.http_status, message, code=outcome.ending.value)


def outcome_headers(outcome: Outcome) -> bytes:
    """The header lines that go with it. The reason has the outcome's detail behind a colon."""
    reason = outcome.ending.value
    if outcome.detail:
        reason += ":" + _NO_WORD.sub("_", outcome.detail[:DETAIL_CHARS_MAX])
    return header_lines(outcome.ending.meaning, reason, outcome.retry_after_s)


def header_lines(meaning: Meaning, reason: str, again_s: float | None = None) -> bytes:
    """What a machine reads of an error without its body: `reason` in a word, and, where coming back is worth it, after
    how many whole seconds: `again_s` rounded up, and the least there is where nobody says."""
    lines = reason_line(reason)
    if meaning.status == 401:
        lines += b"WWW-Authenticate: Bearer\r\n"
    if meaning.again:
        lines += b"Retry-After: %d\r\n" % max(AGAIN_S_MIN, math.ceil(again_s or 0.0))
    return lines


def reason_line(reason: str) -> bytes:
    return b"X-Vicinal-Reason: %b\r\n" % reason.encode("ascii")


def error_event(body: bytes) -> bytes:
    """The server-sent event that ends a broken stream."""
    return b"data: " + body + b"\n\n"
