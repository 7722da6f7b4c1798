"""Reads requests off a connection, one at a time, and says where one ends before anything looks into it.

Framing is where two servers that disagree let one client's bytes become another's request, so anything ambiguous is
refused and the connection with it. What comes of a connection's bytes does not depend on how they were cut.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from vicinal.engines.long_body import Pieces
from vicinal.gateway.body_pieces import BodyPieces, LongBodies
from vicinal.gateway.chunked_body import ChunkedBody
from vicinal.gateway.head_lines import HeadLines
from vicinal.gateway.http_message import HttpRequest, Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.request_head import RequestHead, read_head

Admits = Callable[[Mapping[bytes, bytes]], bool]


class Phase(Enum):
    """Where the reader stands within a message. `OVER`: nothing more is read of this connection."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    OVER = "over"


class ReadRequest:
    """A complete request with what its answer must know of the connection."""

    __slots__ = ("http10", "keep_alive", "request")

    def __init__(self, request: HttpRequest, *, keep_alive: bool, http10: bool) -> None:
        self.request = request
        self.keep_alive = keep_alive
        self.http10 = http10


class RequestReader:
    """Feed it bytes; `next` gives what they make, until it gives None. `peer` is the address that they come from.

    `wants_continue` is True while a client waits for `100 Continue` before it sends its body. `unread` is True when
    bytes of this connection will not be read, or may still come in the middle of a message that is refused. `admits`
    says by its headers whose body is worth reading; without it a request is complete as it is, and the last.
    """

    def __init__(self, limits: Limits, long_bodies: LongBodies, admits: Admits | None = None) -> None:
        self.peer = ""
        self.phase = Phase.IDLE
        self.wants_continue = False
        self.unread = False
        self._limits = limits
        self._long_bodies = long_bodies
        self._admits = admits
        self._lines = HeadLines(limits)
        self._buffer = bytearray()
        self._line_skipped = False
        self._head: RequestHead | None = None
        self._body: BodyPieces | None = None
        self._chunks: ChunkedBody | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes that nothing has looked at yet, or that do not make a head so far."""
        return len(self._buffer)

    @property
    def more(self) -> bool:
        """`next` gave None, and would go on without further bytes: others are to have their turn before it does."""
        return self._chunks is not None and self._chunks.more

    def feed(self, data: bytes) -> None:
        """Take the next bytes. After a refusal, or a request that ends its connection, they are dropped."""
        if self.phase is Phase.OVER:
            self.unread = True
            return
        if self.phase is Phase.BODY:
            self.wants_continue = False
        self._buffer += data

    def next(self) -> ReadRequest | Refusal | None:
        """The next request in order, or the one final refusal. None while bytes are missing."""
        head = self._head
        if head is None:
            found = self._find_head()
            if found is None or isinstance(found, Refusal):
                return found
            head = found
            if not self._worth_reading(head):
                return self._without_body(head)
        return self._read_body(head)

    def _worth_reading(self, head: RequestHead) -> bool:
        """A short body costs less than to look."""
        short = head.length is not None and head.length <= self._limits.waiting_bytes
        return short or self._admits is None or self._admits(head.headers)

    def _without_body(self, head: RequestHead) -> ReadRequest:
        self._over(unread=True)
        request = HttpRequest(head.method, head.path, head.headers, b"", self.peer)
        return ReadRequest(request, keep_alive=False, http10=head.http10)

    def refuse(self, refusal: Refusal) -> Refusal:
        """Read no more of this connection, because of `refusal`."""
        self._over(unread=True)
        return refusal

    def _find_head(self) -> RequestHead | Refusal | None:
        buffer = self._buffer
        if not buffer or self.phase is Phase.OVER:
            return None
        if not self._line_skipped and buffer[0] == 13:  # an empty line before a request: some clients end bodies so
            if len(buffer) < 2:
                return None
            if buffer[1] == 10:
                del buffer[:2]
                self._line_skipped = True
                if not buffer:
                    return None
        self.phase = Phase.HEAD
        end = self._lines.end(buffer)
        if isinstance(end, Refusal):
            return self.refuse(end)
        if not end:
            return None
        raw = bytes(buffer[:end])
        del buffer[:end]
        head = read_head(raw, self._lines, self._limits)
        if isinstance(head, Refusal):
            return self.refuse(head)
        self._head = head
        self._chunks = ChunkedBody(self._limits, self._long_bodies) if head.length is None else None
        self.wants_continue = head.wants_continue and not buffer
        self.phase = Phase.BODY
        return head

    def _read_body(self, head: RequestHead) -> ReadRequest | Refusal | None:
        buffer = self._buffer
        if head.length is None:
            chunks = self._chunks
            assert chunks is not None
            whole = chunks.take(buffer)
            if isinstance(whole, Refusal):
                return self.refuse(whole)
            body = chunks.body.whole() if whole else None
        else:
            sized = self._sized_body(buffer, head.length)
            if isinstance(sized, Refusal):
                return self.refuse(sized)
            body = sized
        if body is None:
            return None
        return self._complete(head, body)

    def _sized_body(self, buffer: bytearray, length: int) -> bytes | Pieces | Refusal | None:
        """The body once it is whole; before that, what came of it is kept apart so that heads stay cheap to find."""
        if self._body is None:
            if length <= len(buffer) and length <= self._long_bodies.above_bytes:
                body = bytes(memoryview(buffer)[:length]) if length else b""
                del buffer[:length]
                return body
            self._body = BodyPieces(self._long_bodies)
        came = bytes(memoryview(buffer)[: length - self._body.size_bytes])
        del buffer[: len(came)]
        refusal = self._body.add(came)
        if refusal is not None or self._body.size_bytes < length:
            return refusal
        whole, self._body = self._body.whole(), None
        return whole

    def _complete(self, head: RequestHead, body: bytes | Pieces) -> ReadRequest:
        self._head = self._chunks = None
        self._line_skipped = False
        self.wants_continue = False
        self.phase = Phase.IDLE
        request = HttpRequest(head.method, head.path, head.headers, body, self.peer)
        if not head.keep_alive:
            self._over(unread=bool(self._buffer))
        return ReadRequest(request, keep_alive=head.keep_alive, http10=head.http10)

    def _over(self, *, unread: bool) -> None:
        self.phase = Phase.OVER
        self.unread = unread
        self.wants_continue = False
        self._head = self._chunks = None
        self._buffer = bytearray()
        self._body = None
