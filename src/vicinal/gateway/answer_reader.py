"""Reads one engine's answers off a connection: httptools parses them, and what it would let pass is bounded here.

An engine may lie about lengths, at any byte. What can be seen is a fault; what cannot (a length that is too short) ends
the answer where it says, and whoever reads the answer's content finds it cut.
"""

import re

import httptools

from vicinal.gateway.engine_faults import EngineFault, EngineFaultError
from vicinal.gateway.limits import Limits

_END = b"\r\n\r\n"
_START = b"HTTP/1."
_bare_line_end = re.compile(rb"(?<!\r)\n")


class AnswerReader:
    """Feed it bytes. `head_ready` says that `status` and `content_type` are known; `body` is what came since it was
    last emptied; `complete` that the answer is over; `excess` that bytes came behind its end.

    `framed` is False for a body that only the connection's end ends.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.body: list[bytes] = []
        self.on_body = self.body.append  # straight into the list: each token comes here
        self._parser = httptools.HttpResponseParser(self)
        self.reset()

    def reset(self) -> None:
        """Be ready for the next answer of the same connection."""
        self.status = 0
        self.content_type = b"application/json"
        self.keep_alive = self.framed = self.coded = False
        self.head_ready = self.complete = self.excess = False
        self.body.clear()
        self._pieces_whole = 0
        self._head = b""
        self._head_bytes = 0
        self._overhead_bytes = 0

    @property
    def reusable(self) -> bool:
        """The connection can carry another answer behind this one."""
        return self.keep_alive and self.framed and not self.excess

    def feed(self, data: bytes) -> None:
        """Raises EngineFaultError; nothing may be fed after that."""
        if not self.head_ready:
            data = self._feed_heads(data)
            if not data:
                return
        if self.complete:
            self.excess = True
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._stopped(error)
        if self.excess:
            del self.body[self._pieces_whole :]
        elif self.body or self.complete:
            self._overhead_bytes = 0
        else:
            self._no_progress(len(data))

    def taken(self) -> bytes:
        """What came of the body, as one piece; it is there no longer."""
        body = self.body
        taken = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        return taken

    def ended(self) -> None:
        """The engine ended the connection in order: for a body without a length, that is its end."""
        if self.head_ready and not self.framed:
            self.complete = True

    def close(self) -> None:
        """Nothing more comes: the parser, which knows this reader, is let go."""
        del self._parser

    def on_message_begin(self) -> None:
        if self.complete:
            self.excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.complete:
            return
        name = name.lower()
        if name == b"content-type":
            self.content_type = value
        elif name == b"content-length":
            self.framed = True
        elif name == b"transfer-encoding":
            self.framed = True
            self.coded = self.coded or value.strip(b" \t").lower() != b"chunked"
        elif name == b"content-encoding":
            self.coded = self.coded or value.strip(b" \t").lower() != b"identity"

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        self.status = self._parser.get_status_code()
        self.keep_alive = bool(self._parser.should_keep_alive())
        self.head_ready = self.status >= 200  # 1xx only announces the answer
        if not self.head_ready:
            self.framed = self.coded = False

    def on_message_complete(self) -> None:
        if self.head_ready and not self.complete:
            self.complete = True
            self._pieces_whole = len(self.body)
            self.framed = self.framed and self.status not in (204, 304)  # a length there may be followed by a body

    def _feed_heads(self, data: bytes) -> bytes:
        """Returns what follows the last head, the answer's own, if it is there."""
        while data and not self.head_ready:
            data = self._feed_head(data)
        return data

    def _feed_head(self, data: bytes) -> bytes:
        """Give the parser one whole head; returns what follows it. Bytes that make none are kept, within bounds."""
        head = self._head + data if self._head else data
        end = head.find(_END) + len(_END)
        whole = end >= len(_END)
        size = end if whole else len(head)
        if self._head_bytes + size > self._limits.answer_head_bytes:
            bound = self._limits.answer_head_bytes
            raise EngineFaultError(EngineFault.HEAD_TOO_LARGE, f"the head of the engine's answer exceeds {bound} bytes")
        if not head.startswith(_START[: len(head)]):
            raise _malformed("it does not begin like one")
        if not whole:
            if _bare_line_end.search(head):
                raise _malformed("its lines do not end as they should")
            self._head = head
            return b""
        self._head = b""
        self._head_bytes += end
        try:
            self._parser.feed_data(head[:end])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._stopped(error)
        if not self.head_ready and self.status < 100:
            raise _malformed(f"status {self.status}")
        if self.head_ready and self.coded:
            raise EngineFaultError(
                EngineFault.UNSUPPORTED_CODING, "the engine's answer is coded in a way not asked for"
            )
        return head[end:]

    def _no_progress(self, data_bytes: int) -> None:
        """Bytes that are no body: chunk lines and trailers, which nobody else bounds."""
        self._overhead_bytes += data_bytes
        if self._overhead_bytes > self._limits.answer_head_bytes:
            words = "the engine's answer is chunk lines without an end"
            raise EngineFaultError(EngineFault.FRAMING_TOO_LARGE, words)

    def _stopped(self, error: Exception) -> None:
        """The parser goes no further: at a fault of the answer, or behind its end."""
        if self.complete:
            self.excess = True
            return
        upgrade = isinstance(error, httptools.HttpParserUpgrade)
        raise _malformed("it changes the protocol" if upgrade else str(error)) from None


def _malformed(what: str) -> EngineFaultError:
    return EngineFaultError(EngineFault.MALFORMED, f"the engine's response is not HTTP: {what}")
