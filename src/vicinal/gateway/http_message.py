"""HTTP/1.1 messages as the gateway's server sees and writes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from msgspec import Struct

from vicinal.domain.outcome import Meaning
from vicinal.engines.long_body import Pieces
from vicinal.gateway.refusals import RefusalKind

_REASONS = {int(status): status.phrase.encode() for status in HTTPStatus} | {499: b"Client Closed Request"}

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"
LAST_CHUNK = b"0\r\n\r\n"


class HttpRequest(Struct, frozen=True):
    """One complete request. `path` has no query; `headers` have lower-case names, and the values of equals are joined
    by `, ` in their order. `peer` is the address of who is connected, empty where it has none. A long `body` is
    in pieces (body_pieces.py)."""

    method: bytes
    path: bytes
    headers: Mapping[bytes, bytes]
    body: bytes | Pieces
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is refused while it is read; its connection ends with the answer. `kind` is one that has one."""

    kind: RefusalKind
    message: str

    @property
    def meaning(self) -> Meaning:
        meaning = self.kind.meaning
        assert meaning is not None, self.kind
        return meaning


def response_head(
    status: int, content_type: bytes, extra: bytes, *, length: int | None, chunked: bool, keep_alive: bool
) -> bytes:
    """Status line and headers. `extra` are whole header lines, each with its line end.

    With neither `length` nor `chunked`, the end of the connection ends the body (HTTP/1.0).
    """
    framing = b""
    if length is not None:
        framing = b"Content-Length: %d\r\n" % length
    elif chunked:
        framing = b"Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n"
    return b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\n%b%b%b\r\n" % (
        status,
        _REASONS.get(status, b"Unknown"),
        content_type,
        extra,
        framing,
        b"" if keep_alive else b"Connection: close\r\n",
    )
