"""The lines of a trace, numbered, from one file or from several that continue each other, plain or gzip."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

_GZIP_MAGIC = b"\x1f\x8b"


class TraceError(ValueError):
    """A trace that cannot be used. Its text has file, line, what is there, what was expected, and what to do."""


class Lines:
    """Lines that are not blank. `path` and `number` are those of the line given last, `given` counts all of them.

    Iterating raises TraceError for a file that cannot be read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self.path = paths[0]
        self.number = 0
        self.given = 0

    @property
    def place(self) -> str:
        return f"{self.path}:{self.number}"

    def __iter__(self) -> Iterator[bytes]:
        for path in self.paths:
            self.path = path
            yield from self._of(path)

    def _of(self, path: Path) -> Iterator[bytes]:
        try:
            with _opened(path) as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        self.number = number
                        self.given += 1
                        yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceError(f"{path}: the gzip data is damaged after line {self.number}: {error}") from None
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror or error}") from None


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return cast("BinaryIO", gzip.open(path)) if packed else path.open("rb")
