"""Bodies too long to be copied at once: a JSON object in pieces, and where the values of its fields are.

Joining or scanning 16 MiB takes milliseconds, during which nobody else's bytes move. Here a body is spliced by cutting
views of its pieces: that takes as long as it has pieces and fields, however long they are.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

Piece = bytes | memoryview
Places = Mapping[str, tuple[int, int]]
"""Per top-level field where its value begins and ends, in bytes."""

_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_PIECE_BYTES = 64 * 1024
_SHORT_BYTES = 4096
"""Neighbours that are shorter are joined: a write of its own costs more than the copy."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Bytes as they came, in order. `hold` lives as long as anybody keeps them: who bounds them counts by it."""

    parts: tuple[Piece, ...]
    size_bytes: int
    hold: object = None

    def cut(self, ranges: Iterable[tuple[int, int]]) -> list[Piece]:
        """Views of the stretches `ranges` (begin, end). Raises ValueError for one that is not within."""
        begins = [0]
        for part in self.parts:
            begins.append(begins[-1] + len(part))
        views: list[Piece] = []
        for begin, end in ranges:
            if not 0 <= begin <= end <= self.size_bytes:
                raise ValueError(f"bytes {begin} to {end} of {self.size_bytes}")
            at = bisect_right(begins, begin) - 1
            while begin < end:
                upto = min(end, begins[at + 1])
                views.append(memoryview(self.parts[at])[begin - begins[at] : upto - begins[at]])
                begin, at = upto, at + 1
        return views

    def joined(self) -> bytes:
        return b"".join(self.parts)


def in_pieces(body: bytes) -> Pieces:
    """A body that is in one piece, cut."""
    view = memoryview(body)
    return Pieces(tuple(view[at : at + _PIECE_BYTES] for at in range(0, len(body), _PIECE_BYTES)), len(body))


@dataclass(frozen=True, slots=True)
class LongBody:
    """A JSON object: its bytes, and the places of its fields in them."""

    pieces: Pieces
    places: Places

    def spliced(
        self,
        changes: Mapping[str, bytes],
        drop: Collection[str] = (),
        replaced: Mapping[str, bytes] = _NOTHING,
    ) -> "LongBody":
        """As `splicing.spliced` does it with a body in one piece."""
        fields: dict[str, tuple[int, int] | bytes] = {n: place for n, place in self.places.items() if n not in drop}
        fields.update(changes)
        fields.update({name: value for name, value in replaced.items() if name in fields})
        made = _Made()
        for name, value in fields.items():
            made.add(b"," if made.size_bytes else b"{")
            made.add(msgspec.json.encode(name))
            made.add(b":")
            made.begin(name)
            for part in [value] if isinstance(value, bytes) else self.pieces.cut([value]):
                made.add(part)
            made.end(name)
        made.add(b"}" if fields else b"{}")
        return LongBody(Pieces(made.parts(), made.size_bytes, self.pieces.hold), made.places)


class _Made:
    """A body in the making."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.places: dict[str, tuple[int, int]] = {}
        self._parts: list[Piece] = []
        self._short = bytearray()

    def add(self, part: Piece) -> None:
        self.size_bytes += len(part)
        if len(part) < _SHORT_BYTES:
            self._short += part
        else:
            self._flush()
            self._parts.append(part)

    def begin(self, name: str) -> None:
        self.places[name] = (self.size_bytes, self.size_bytes)

    def end(self, name: str) -> None:
        self.places[name] = (self.places[name][0], self.size_bytes)

    def parts(self) -> tuple[Piece, ...]:
        self._flush()
        return tuple(self._parts)

    def _flush(self) -> None:
        if self._short:
            self._parts.append(bytes(self._short))
            self._short.clear()
