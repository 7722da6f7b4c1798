"""Errors as OpenAI's clients know them: `{"error": {"message", "type", "param", "code"}}`."""

import math

import msgspec

from vicinal.domain.outcome import Outcome

_TYPES = {
    400: "invalid_request_error",
    404: "not_found_error",
    429: "rate_limit_error",
    499: "client_closed_request",
    502: "upstream_error",
    503: "service_unavailable_error",
}


class ApiError(Exception):
    """A request that is refused before the core sees it. `code` is machine-readable, `param` names the field."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> bytes:
        return error_body(self.status, self.message, param=self.param, code=self.code)


def error_body(status: int, message: str, *, param: str | None = None, code: str | None = None) -> bytes:
    """The JSON body of an error with HTTP status `status`."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def outcome_body(outcome: Outcome, words: str = "") -> bytes:
    """The JSON body for a request that the core ended; its `code` is the ending. `words` are those of the engine that
    failed it last: they may quote the request, so its client reads them and nobody else."""
    message = outcome.reason or outcome.ending.value
    if words:
        message = f"{message}; an engine said: {words}"
    return error_body(outcome.ending.http_status, message, code=outcome.ending.value)


def outcome_headers(outcome: Outcome) -> bytes:
    """The header lines that go with it: `Retry-After`, in whole seconds rounded up, where coming back is worth it."""
    if outcome.retry_after_s is None:
        return b""
    return b"Retry-After: %d\r\n" % max(0, math.ceil(outcome.retry_after_s))


def error_event(body: bytes) -> bytes:
    """The server-sent event that ends a broken stream."""
    return b"data: " + body + b"\n\n"
