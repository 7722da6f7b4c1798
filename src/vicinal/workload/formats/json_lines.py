"""JSON lines as typed rows."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow

T = TypeVar("T")


def json_rows(lines: Lines, kind: type[T]) -> Iterator[T]:
    """Each line as a `kind`; fields that it does not name are ignored. Raises BadRow."""
    decoder = msgspec.json.Decoder(kind)
    for line in lines:
        yield decoded(decoder, line)


def decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """One line. Raises BadRow."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise BadRow(f"not a request: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRow(f"not valid JSON: {error}") from None
