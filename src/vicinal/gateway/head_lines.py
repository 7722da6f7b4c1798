"""Where the head of a request ends, and whether its lines are what RFC 9112 says, before anything parses them.

Two servers that find different ends in the same bytes let one client's bytes become another's request. So the lines
are strict: each ends with CR LF, a name is a token and a colon follows it at once, a value holds no control character
and is not folded. What is refused depends on the bytes alone, never on how they were cut on their way.
"""

import re

from vicinal.gateway.http_message import Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind

_FIELD = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n"
_REQUEST = rb"[A-Z][A-Z_-]{0,31} [!-~]++ HTTP/1\.[01]\r\n"
_PLAIN_FIELD = _FIELD[:-4] + rb"(?<![ \t])\r\n"
_plain_head = re.compile(_REQUEST + b"(?:" + _PLAIN_FIELD + rb")*+\r\n")
_request_line = re.compile(_REQUEST)
_other_version = re.compile(rb"[A-Z][A-Z_-]{0,31} [!-~]++ HTTP/[0-9]\.[0-9]\r\n")
field_line = re.compile(_FIELD)

_FIRST = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


class HeadLines:
    """Looks for the end of one head after the other at the start of a buffer that grows at its end.

    Of the last head found: `fields` is how many it has, `plain` is True when no value ends with a space or a tab.
    """

    def __init__(self, limits: Limits) -> None:
        self.fields = 0
        self.plain = True
        self._bytes_max = limits.head_bytes
        self._fields_max = limits.head_fields
        self._begun = False
        self._checked = 0

    def end(self, buffer: bytearray) -> int | Refusal:
        """The length of the head, 0 while it is not whole, or why it cannot become one."""
        if not self._begun:
            found = _plain_head.match(buffer)  # the same as line by line, where all comes at once and in order
            if found is not None and (end := found.end()) <= self._bytes_max:
                self.plain = True
                self.fields = buffer.count(b"\r\n", 0, end) - 2
                return end if self.fields <= self._fields_max else self._too_many()
            self._begun = True
            self._checked = 0
            self.fields = -1
        return self._by_line(buffer)

    def _by_line(self, buffer: bytearray) -> int | Refusal:
        """Says of the first wrong line, whole or not, what is wrong with it."""
        if buffer and buffer[0] not in _FIRST:
            return _malformed("a request begins with its method in capital letters")
        while (at := buffer.find(b"\n", self._checked)) >= 0:
            line = bytes(buffer[self._checked : at + 1])
            if at + 1 > self._bytes_max:
                return self._too_large()
            if line == b"\r\n" and self.fields >= 0:
                self._begun = self.plain = False
                return at + 1
            refusal = _request_fault(line) if self.fields < 0 else field_fault(line)
            if refusal is not None:
                return refusal
            self._checked = at + 1
            self.fields += 1
            if self.fields > self._fields_max:
                return self._too_many()
        return self._too_large() if len(buffer) > self._bytes_max else 0

    def _too_large(self) -> Refusal:
        if self.fields < 0:
            words = f"the request line exceeds {self._bytes_max} bytes"
            return Refusal(RefusalKind.TARGET_TOO_LONG, words)
        words = f"request line and headers exceed {self._bytes_max} bytes"
        return Refusal(RefusalKind.HEAD_TOO_LARGE, words)

    def _too_many(self) -> Refusal:
        return Refusal(RefusalKind.TOO_MANY_HEADERS, f"more than {self._fields_max} header fields")


def field_fault(line: bytes) -> Refusal | None:
    """What is wrong with a header or trailer line, which ends with its line feed."""
    if field_line.fullmatch(line):
        return None
    if not line.endswith(b"\r\n"):
        return _malformed("a header line ends with a bare line feed")
    if line[:1] in (b" ", b"\t"):
        return _malformed("a header line is folded")
    name, colon, _ = line.partition(b":")
    if not colon or not name or name.rstrip(b" \t") != name:
        return _malformed("a header line has no name with a colon right after it")
    return _malformed("a header line has a character that may not be there")


def _request_fault(line: bytes) -> Refusal | None:
    if _request_line.fullmatch(line):
        return None
    if _other_version.fullmatch(line):
        return Refusal(RefusalKind.UNSUPPORTED_VERSION, "this server speaks HTTP/1.1 and HTTP/1.0")
    return _malformed("the first line is not: METHOD target HTTP/1.1")


def _malformed(what: str) -> Refusal:
    return Refusal(RefusalKind.MALFORMED_HEAD, f"malformed HTTP: {what}")
