"""Why a request or a connection of a client was refused, or a connection closed: every kind has its counter."""

from enum import StrEnum


class RefusalKind(StrEnum):
    """Closed, and exposed by name (`vicinal_http_refusals_total`). The first part is answered, with the status that
    docs/http.md gives; from `IDLE` on, the connection is closed without a word."""

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
