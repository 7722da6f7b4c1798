"""Events as JSON and back, exactly: what a captured run is replayed from.

A line is {"at": seconds, "event": name, "body": {…}}; bytes are base64, enumerations their values.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

import msgspec

from vicinal.domain.events import Event

KINDS: Mapping[str, type] = MappingProxyType({kind.__name__: kind for kind in get_args(Event)})


class UnreadableEventError(ValueError):
    """A line that is no event; the text says why."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    at: float
    event: str
    body: msgspec.Raw


def encode_event(event: Event, at_s: float) -> bytes:
    """One line, without its end. `at_s` is the `now` that the core was given with it."""
    return msgspec.json.encode({"at": at_s, "event": type(event).__name__, "body": event})


def decode_event(line: bytes) -> tuple[Event, float]:
    """The event and its time. Raises UnreadableEventError."""
    try:
        read = msgspec.json.decode(line, type=_Line)
        kind = KINDS[read.event]
        event: Event = msgspec.json.decode(read.body, type=kind)
    except KeyError as error:
        raise UnreadableEventError(f"unknown event {error}; known: {', '.join(KINDS)}") from None
    except msgspec.MsgspecError as error:
        raise UnreadableEventError(str(error)) from None
    return event, read.at
