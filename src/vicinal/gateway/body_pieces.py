"""What comes of a request's body until it is whole, and the bound on what all long bodies take together.

A short body is joined. A long one stays in the pieces that it came in: joining it would hold everybody else up. How
many bytes long bodies keep in memory is counted as long as somebody keeps them, also while a reader or an engine has
them; one that finds too little room is refused, because its client can come again and memory cannot.
"""

from vicinal.engines.long_body import Pieces
from vicinal.gateway.http_message import Refusal
from vicinal.gateway.refusals import RefusalKind

_NO_ROOM = "too many long bodies are under way here: send it again later"
_PIECE_BYTES = 64 * 1024
_SMALL_BYTES = 16 * 1024
"""Pieces below this are joined up to `_PIECE_BYTES`: chunks of one byte must not cost fifty times as much."""


class LongBodies:
    """The room for long bodies of one process. `above_bytes` is what counts as long, `room_bytes` bounds all of them
    together."""

    def __init__(self, above_bytes: int, room_bytes: int) -> None:
        self.above_bytes = above_bytes
        self.room_bytes = room_bytes
        self.held_bytes = 0


class _Hold:
    """Bytes of one body. They are given back when the last one who has the body drops it."""

    __slots__ = ("_of", "size_bytes")

    def __init__(self, of: LongBodies) -> None:
        self._of = of
        self.size_bytes = 0

    def grow(self, to_bytes: int) -> bool:
        """False, and nothing changes, when the body would have more than what it leaves free.

        So one body takes at most half of the room that there is, and short ones find some when long ones do not.
        """
        free_bytes = self._of.room_bytes - self._of.held_bytes + self.size_bytes
        if to_bytes > free_bytes - to_bytes:
            return False
        self._of.held_bytes += to_bytes - self.size_bytes
        self.size_bytes = to_bytes
        return True

    def __del__(self) -> None:
        self._of.held_bytes -= self.size_bytes


class BodyPieces:
    """The body of one request in the making."""

    __slots__ = ("_hold", "_long_bodies", "_parts", "_tail", "size_bytes")

    def __init__(self, long_bodies: LongBodies) -> None:
        self.size_bytes = 0
        self._long_bodies = long_bodies
        self._parts: list[bytes] = []
        self._tail = bytearray()
        self._hold: _Hold | None = None

    def add(self, data: bytes) -> Refusal | None:
        """Take the next bytes, unless there is no room for a long body of that size now."""
        self.size_bytes += len(data)
        if self.size_bytes > self._long_bodies.above_bytes:
            if self._hold is None:
                self._hold = _Hold(self._long_bodies)
            if not self._hold.grow(self.size_bytes):
                return Refusal(RefusalKind.NO_ROOM_FOR_BODY, _NO_ROOM)
        if len(data) < _SMALL_BYTES and (self._parts or self._tail):
            self._tail += data
            if len(self._tail) >= _PIECE_BYTES:
                self._flush()
        else:
            self._flush()
            self._parts.append(data)
        return None

    def whole(self) -> bytes | Pieces:
        """The body: in one piece unless it is long."""
        self._flush()
        if self._hold is not None:
            return Pieces(tuple(self._parts), self.size_bytes, self._hold)
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def _flush(self) -> None:
        if self._tail:
            self._parts.append(bytes(self._tail))
            self._tail.clear()
