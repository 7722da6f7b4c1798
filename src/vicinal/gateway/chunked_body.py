"""The chunks of a request's body, as strict as its head: exact line ends, bounded lines, nothing but the body kept."""

import re

from vicinal.gateway.body_pieces import BodyPieces, LongBodies
from vicinal.gateway.head_lines import field_fault
from vicinal.gateway.http_message import Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind

_SIZE_LINE_BYTES_MAX = 256
_LINES_IN_A_ROW = 256
"""Other connections have their turn after so many: a read of 256 KiB may hold 40,000 chunks of a byte each."""
_NO_TRAILERS = frozenset(
    (
        b"authorization",
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_EXTENSION = b";" + _TOKEN + b"(?:=(?:" + _TOKEN + rb'|"[\t !#-\[\]-~\x80-\xff]*"))?'
_size_line = re.compile(rb"([0-9A-Fa-f]{1,16})((?:" + _EXTENSION + rb")*)\r\n")


class ChunkedBody:
    """Moves what it can from the front of a buffer into `body`, `_LINES_IN_A_ROW` at a time: `more` says that there is
    more to do without further bytes. Trailers are checked and dropped."""

    def __init__(self, limits: Limits, long_bodies: LongBodies) -> None:
        self.body = BodyPieces(long_bodies)
        self.more = False
        self._limits = limits
        self._missing = 0
        self._data = False
        self._trailers = False
        self._trailer_bytes = 0
        self._trailer_fields = 0
        self._extension_bytes = 0

    def take(self, buffer: bytearray) -> bool | Refusal:
        """True when the body is whole: the buffer then starts behind it. False while more must come."""
        at = 0
        self.more = False
        for _ in range(_LINES_IN_A_ROW):
            if self._data:
                end = min(at + self._missing, len(buffer))
                refusal = self.body.add(bytes(memoryview(buffer)[at:end]))
                if refusal is not None:
                    return refusal
                self._missing -= end - at
                at = end
                if self._missing or len(buffer) < at + 2:
                    break
                if buffer[at : at + 2] != b"\r\n":
                    return _bad("its data is not as long as it says")
                at += 2
                self._data = False
            end = buffer.find(b"\n", at) + 1
            fault = self._line_bound(end - at if end else len(buffer) - at)
            if fault is not None:
                return fault
            if not end:
                break
            done = self._line(bytes(buffer[at:end]))
            at = end
            if done is not False:
                del buffer[:at]
                return done
        else:
            self.more = True
        del buffer[:at]
        return False

    def _line_bound(self, line_bytes: int) -> Refusal | None:
        """What a line, whole or not, may take."""
        if not self._trailers:
            return (
                _bad(f"its size line exceeds {_SIZE_LINE_BYTES_MAX} bytes")
                if line_bytes > _SIZE_LINE_BYTES_MAX
                else None
            )
        if self._trailer_bytes + line_bytes > self._limits.head_bytes:
            return Refusal(RefusalKind.HEAD_TOO_LARGE, f"the trailers exceed {self._limits.head_bytes} bytes")
        return None

    def _line(self, line: bytes) -> bool | Refusal:
        return self._trailer(line) if self._trailers else self._size(line)

    def _size(self, line: bytes) -> bool | Refusal:
        found = _size_line.fullmatch(line)
        if found is None:
            return _bad("its size line is not a hexadecimal number, with extensions after a semicolon or none")
        self._extension_bytes += len(found[2])
        if self._extension_bytes > self._limits.head_bytes:
            return _bad(f"extensions exceed {self._limits.head_bytes} bytes")
        self._missing = int(found[1], 16)
        if self.body.size_bytes + self._missing > self._limits.body_bytes:
            return Refusal(RefusalKind.BODY_TOO_LARGE, f"the body exceeds {self._limits.body_bytes} bytes")
        self._trailers = self._missing == 0
        self._data = not self._trailers
        return False

    def _trailer(self, line: bytes) -> bool | Refusal:
        if line == b"\r\n":
            return True
        self._trailer_bytes += len(line)
        self._trailer_fields += 1
        if self._trailer_fields > self._limits.head_fields:
            words = f"more than {self._limits.head_fields} trailer fields"
            return Refusal(RefusalKind.TOO_MANY_HEADERS, words)
        if line.partition(b":")[0].lower() in _NO_TRAILERS:
            return _bad("a trailer that says how to read the message, after it was read")
        return field_fault(line) or False


def _bad(what: str) -> Refusal:
    return Refusal(RefusalKind.BAD_CHUNK, f"malformed chunk: {what}")
