"""The exact log of a run: what went into the core, when, and what its random stream was seeded with.

The first line is the header, with the configuration as TOML; each further line is an event (wire/events.py). A
scheduler made from the header and fed the events takes the same decisions again.
"""

from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path

import msgspec

from vicinal.domain.events import Event
from vicinal.wire.events import UnreadableEventError, decode_event, encode_event

VERSION = 1


class CaptureHeader(msgspec.Struct, frozen=True):
    """`heartbeat_s` is the interval of reports in model seconds, which the speed of an emulated run changes."""

    vicinal_capture: int
    seed: int
    heartbeat_s: float
    config: str


class CaptureError(ValueError):
    """A capture that cannot be read. The text has file, line and reason."""


class CaptureWriter:
    """Writes a capture as it happens. Raises OSError at once when the file cannot be made."""

    def __init__(self, path: Path, header: CaptureHeader) -> None:
        self._file: BufferedWriter = path.open("wb")
        self._file.write(msgspec.json.encode(header) + b"\n")

    def __call__(self, event: Event, at_s: float) -> None:
        self._file.write(encode_event(event, at_s) + b"\n")

    def close(self) -> None:
        self._file.close()


def read_capture(path: Path) -> tuple[CaptureHeader, Iterator[tuple[Event, float]]]:
    """Header, and the events in order, read as they are asked for. Raises CaptureError."""
    lines = _numbered(path)
    try:
        _, first = next(lines)
        header = msgspec.json.decode(first, type=CaptureHeader)
    except (StopIteration, msgspec.MsgspecError) as error:
        raise CaptureError(f"{path}:1: not the header of a capture: {error}") from None
    if header.vicinal_capture != VERSION:
        raise CaptureError(f"{path}:1: capture version {header.vicinal_capture}; this vicinal reads {VERSION}")
    return header, _events(path, lines)


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from enumerate(file, start=1)


def _events(path: Path, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[Event, float]]:
    for number, line in lines:
        try:
            yield decode_event(line)
        except UnreadableEventError as error:
            raise CaptureError(f"{path}:{number}: {error}") from None
