"""Reads requests off a connection: httptools finds their parts, this room bounds them and makes them whole.

Framing is where two servers that disagree let one client's bytes become another's request, so anything ambiguous is
refused and the connection with it: both a length and a transfer encoding, a coding other than chunked, an upgrade.
"""

from collections import deque
from enum import Enum

import httptools

from vicinal.gateway.http_message import HttpRequest, Refusal
from vicinal.gateway.limits import Limits


class Phase(Enum):
    """Where the reader stands within a message."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    REFUSED = "refused"


class _StopError(Exception):
    """Makes httptools stop inside a buffer."""


class ReadRequest:
    """A complete request with what its answer must know of the connection."""

    __slots__ = ("http10", "keep_alive", "request")

    def __init__(self, request: HttpRequest, *, keep_alive: bool, http10: bool) -> None:
        self.request = request
        self.keep_alive = keep_alive
        self.http10 = http10


class RequestReader:
    """Feed it bytes; take complete requests, or one final refusal, from `ready`.

    `wants_continue` is True while a client waits for `100 Continue` before it sends its body.
    """

    def __init__(self, limits: Limits) -> None:
        self.ready: deque[ReadRequest | Refusal] = deque()
        self.phase = Phase.IDLE
        self.wants_continue = False
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._began_in_feed = False
        self._last_of_connection = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes. After a refusal, or a request that ends its connection, they are dropped."""
        if self._refused or self._last_of_connection:
            return
        self._began_in_feed = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            if not self._refused:
                raise
        except httptools.HttpParserError as error:
            if not self._last_of_connection:
                self._refuse(400, f"malformed HTTP: {error}")
            return
        if self.phase is Phase.HEAD and not self._began_in_feed:
            self._count_head(len(data))

    def on_message_begin(self) -> None:
        self.phase = Phase.HEAD
        self._began_in_feed = True
        self._url = b""
        self._headers = {}
        self._head_bytes = 0
        self._body = []
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > self._limits.head_bytes:
            self._refuse_head()
            raise _StopError
        if self.phase is Phase.HEAD:  # a trailer after a chunked body says nothing that is heard here
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        headers = self._headers
        self.phase = Phase.BODY
        if self._parser.should_upgrade():  # httptools would take the body for the other protocol's bytes
            self._refuse(400, "this server speaks HTTP/1.1 only: send the request without Upgrade")
            raise _StopError
        coding = headers.get(b"transfer-encoding")
        length = headers.get(b"content-length")
        if coding is not None:
            if length is not None:
                self._refuse(400, "both Content-Length and Transfer-Encoding: the body's end is ambiguous")
                raise _StopError
            if coding.strip().lower() != b"chunked":
                self._refuse(501, "the only transfer coding understood here is chunked")
                raise _StopError
        elif length is not None and int(length) > self._limits.body_bytes:
            self._refuse_body()
            raise _StopError
        if self._parser.get_http_version() == "1.1" and headers.get(b"expect", b"").lower() == b"100-continue":
            self.wants_continue = coding is not None or int(length or 0) > 0

    def on_body(self, data: bytes) -> None:
        self.wants_continue = False
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.body_bytes:
            self._refuse_body()
            raise _StopError
        self._body.append(data)

    def on_message_complete(self) -> None:
        self.phase = Phase.IDLE
        self.wants_continue = False
        http10 = self._parser.get_http_version() != "1.1"
        keep_alive = not http10 and bool(self._parser.should_keep_alive())
        self._last_of_connection = not keep_alive
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        request = HttpRequest(self._parser.get_method(), _path(self._url), self._headers, body)
        self.ready.append(ReadRequest(request, keep_alive=keep_alive, http10=http10))

    @property
    def _refused(self) -> bool:
        return self.phase is Phase.REFUSED

    def _count_head(self, data_bytes: int) -> None:
        # a header line that never ends reaches no callback: whole reads within one head count in full
        self._head_bytes += data_bytes
        if self._head_bytes > 2 * self._limits.head_bytes:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refuse(431, f"request line and headers exceed {self._limits.head_bytes} bytes")

    def _refuse_body(self) -> None:
        self._refuse(413, f"the body exceeds {self._limits.body_bytes} bytes")

    def _refuse(self, status: int, message: str) -> None:
        self.phase = Phase.REFUSED
        self.wants_continue = False
        self._body = []
        self.ready.append(Refusal(status, message))


def _path(url: bytes) -> bytes:
    """The path of a request target, without its query; of an absolute target too."""
    if url.startswith(b"/"):
        return url.partition(b"?")[0]
    try:
        return httptools.parse_url(url).path or b"/"
    except httptools.HttpParserInvalidURLError:
        return b""
