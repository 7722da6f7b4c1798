"""What core and relays say to each other (DESIGN 14), as frames of a byte stream.

A frame is its length (4 bytes), the kind of its message (1), the number of a submission (8), all little-endian, then
the message as MessagePack. Events go up and effects come down as the core has them. A relay numbers what it submits,
and each effect carries the number that it answers: one for an older submission of the same id is known by it.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from typing import Any, get_args

import msgspec

from vicinal.domain.effects import Answer, Cancel, Dispatch
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import ClientGone, FirstToken, LegFailed, PrefillDone, RequestArrived, RequestFinished

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""Longer than any message can be: a prompt of a million tokens has hashes of half a megabyte."""

_HEAD = Layout("<IBQ")


class Hello(msgspec.Struct, frozen=True):
    """A relay's first message. Core and relays are of one version, since one command starts them."""

    relay: str
    pid: int
    version: str


class Counts(msgspec.Struct, frozen=True):
    """A relay's totals since its start, by metric and kind; once a second."""

    totals: dict[str, dict[str, int]]


class Fleet(msgspec.Struct, frozen=True):
    """Dispatches name these endpoints from now on. The core's answer to `Hello`, and again at every change."""

    endpoints: tuple[Endpoint, ...]


class ByText(msgspec.Struct, frozen=True):
    """A kind of prompt that is matched by its text, and why."""

    model: str
    kind: str
    reason: str


class Beat(msgspec.Struct, frozen=True):
    """The core lives; once a second. `unready` says why no request should come now, "" while they may."""

    unready: str
    by_text: tuple[ByText, ...] = ()


class Taken(msgspec.Struct, frozen=True):
    """The id of this submission is in use at another relay: it needs another one."""


Up = Hello | Counts | RequestArrived | PrefillDone | FirstToken | RequestFinished | LegFailed | ClientGone
Down = Fleet | Beat | Taken | Dispatch | Cancel | Answer

_KINDS: tuple[Any, ...] = (*get_args(Up), *get_args(Down))
_NUMBER_OF = {kind: number for number, kind in enumerate(_KINDS)}
_DECODERS = tuple(msgspec.msgpack.Decoder(kind) for kind in _KINDS)
_encode = msgspec.msgpack.Encoder().encode


class FrameError(ValueError):
    """Bytes that are no frame of ours; the text says why."""


def frame(message: Up | Down, number: int = 0) -> bytes:
    """`message` about submission `number`."""
    body = _encode(message)
    return _HEAD.pack(len(body), _NUMBER_OF[type(message)], number) + body


class FrameReader:
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, Up | Down]]:
        """Each message that is complete, with its submission's number. Raises FrameError."""
        self._buffer += data
        start, held = 0, len(self._buffer)
        try:
            while held - start >= _HEAD.size:
                length, kind, number = _HEAD.unpack_from(self._buffer, start)
                if length > FRAME_BYTES_MAX or kind >= len(_KINDS):
                    raise FrameError(f"a frame of kind {kind} with {length} bytes")
                end = start + _HEAD.size + length
                if end > held:
                    break
                body = bytes(memoryview(self._buffer)[start + _HEAD.size : end])
                start = end
                yield number, _decoded(kind, body)
        finally:
            del self._buffer[:start]


def _decoded(kind: int, body: bytes) -> Up | Down:
    try:
        message: Up | Down = _DECODERS[kind].decode(body)
    except msgspec.MsgspecError as error:
        raise FrameError(f"a {_KINDS[kind].__name__} that cannot be read: {error}") from None
    return message
