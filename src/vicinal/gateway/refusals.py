"""Why a request or a connection of a client was refused, or a connection closed: every kind has its counter."""

from enum import StrEnum

from vicinal.domain.outcome import Fault, Meaning


class RefusalKind(StrEnum):
    """Closed, and exposed by name (`vicinal_http_refusals_total`). The first part is answered, with the status of its
    meaning; from `IDLE` on, the connection is closed without a word."""

    MALFORMED_HEAD = "malformed_head"
    BAD_HOST = "bad_host"
    BAD_LENGTH = "bad_length"
    BAD_CODING = "bad_coding"
    BAD_CHUNK = "bad_chunk"
    REPEATED_HEADER = "repeated_header"
    HEAD_TOO_SLOW = "head_too_slow"
    BODY_TOO_SLOW = "body_too_slow"
    BODY_TOO_LARGE = "body_too_large"
    NO_ROOM_FOR_BODY = "no_room_for_body"
    TARGET_TOO_LONG = "target_too_long"
    UNSUPPORTED_EXPECTATION = "unsupported_expectation"
    HEAD_TOO_LARGE = "head_too_large"
    TOO_MANY_HEADERS = "too_many_headers"
    UNSUPPORTED_CODING = "unsupported_coding"
    UNSUPPORTED_METHOD = "unsupported_method"
    UNSUPPORTED_VERSION = "unsupported_version"
    IDLE = "idle"
    CUT_SHORT = "cut_short"
    STALLED_READER = "stalled_reader"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    TOO_MANY_OF_ADDRESS = "too_many_of_address"
    NOT_DRAINED = "not_drained"

    @property
    def meaning(self) -> Meaning | None:
        """Of its answer; None where the connection is closed without one."""
        return _ANSWERED.get(self)

    @property
    def text(self) -> str:
        """What happened, in a sentence."""
        meaning = _ANSWERED.get(self)
        return _CLOSED[self] if meaning is None else meaning.text


def _of_client(status: int, text: str) -> Meaning:
    return Meaning(status, Fault.CLIENT, text)


_ANSWERED = {
    RefusalKind.MALFORMED_HEAD: _of_client(400, "a request or trailer line against RFC 9112, or a target that is none"),
    RefusalKind.BAD_HOST: _of_client(400, "no Host in HTTP/1.1, several, or one that is no host"),
    RefusalKind.BAD_LENGTH: _of_client(400, "a Content-Length that is repeated, or no plain number"),
    RefusalKind.BAD_CODING: _of_client(400, "a Transfer-Encoding beside a length, repeated, or in HTTP/1.0"),
    RefusalKind.BAD_CHUNK: _of_client(400, "a chunk that is not as it says, or too much beside the body"),
    RefusalKind.REPEATED_HEADER: _of_client(400, "Authorization or Content-Type more than once"),
    RefusalKind.HEAD_TOO_SLOW: _of_client(408, "request line and headers took longer than `header_timeout_s`"),
    RefusalKind.BODY_TOO_SLOW: _of_client(408, "the body took longer than `body_timeout_s`"),
    RefusalKind.BODY_TOO_LARGE: _of_client(413, "a body above `body_bytes_max`"),
    RefusalKind.NO_ROOM_FOR_BODY: Meaning(
        503,
        Fault.GATEWAY,
        "long bodies take all the memory that they may take together (`long_bodies_bytes_max`)",
        again=True,
    ),
    RefusalKind.TARGET_TOO_LONG: _of_client(414, "a request line above `header_bytes_max`"),
    RefusalKind.UNSUPPORTED_EXPECTATION: _of_client(417, "an expectation other than `100-continue`"),
    RefusalKind.HEAD_TOO_LARGE: _of_client(431, "request line and headers, or trailers, above `header_bytes_max`"),
    RefusalKind.TOO_MANY_HEADERS: _of_client(431, "more header fields or trailers than `header_fields_max`"),
    RefusalKind.UNSUPPORTED_CODING: _of_client(501, "a transfer coding other than chunked"),
    RefusalKind.UNSUPPORTED_METHOD: _of_client(501, "a method that does not exist, or CONNECT"),
    RefusalKind.UNSUPPORTED_VERSION: _of_client(505, "a version other than 1.0 and 1.1"),
}

_CLOSED = {
    RefusalKind.IDLE: "no request for `idle_timeout_s`",
    RefusalKind.CUT_SHORT: "the client ended its connection in the middle of a request",
    RefusalKind.STALLED_READER: "the client did not read its answer for 60 s",
    RefusalKind.TOO_MANY_CONNECTIONS: "above `connections_max`",
    RefusalKind.TOO_MANY_OF_ADDRESS: "above `connections_per_address_max`",
    RefusalKind.NOT_DRAINED: "cut because the gateway stopped and 30 s were over",
}
