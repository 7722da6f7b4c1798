"""What a file says of hosts' places, and what can be wrong with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vicinal.domain.endpoint import Placement

Places = Mapping[str, Placement]
"""Per host: where it stands. A name that the file does not give is empty, which is Unknown."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """One thing that is wrong. `line` counts from 1; 0 is the whole file."""

    line: int
    text: str


class PlaceFileError(ValueError):
    """A file that cannot be read as what it should be. Its text has one line per thing that is wrong."""

    def __init__(self, lines: Sequence[BadLine]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(f"line {bad.line}: {bad.text}" if bad.line else bad.text for bad in lines))
