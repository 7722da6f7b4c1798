"""The decision record: every decision and observation, as lines in rotating files, always on.

Files are `decisions-00000001.jsonl` and so on; the highest number is the newest. Each start, and each recovery after a
write error, begins a new file, so only the last line of a file can be torn. Disk use is bounded by
`files_max * file_bytes_max`.

Writing never raises into the decision path: lines are buffered and written together; when that fails they are counted
as lost and `complain` hears of it, once until writing works again.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Self

from vicinal.domain.decision import Decision, Observation
from vicinal.observe.encode import encode_decision, encode_observation

FLUSH_S = 0.5
BUFFER_BYTES = 256 * 1024
_NAME = re.compile(r"decisions-(\d{8,})\.jsonl")


def record_files(directory: Path) -> list[Path]:
    """The files of a record, oldest first. Raises OSError when the directory cannot be read."""
    found = [(int(match[1]), path) for path in directory.iterdir() if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


class DecisionLog:
    """Writes to `directory`, which it makes; raises OSError only when that fails.

    Lines wait at most `flush_s` of the driver's clock, as far as something is written or `tick` is called, and at most
    `buffer_bytes`. `lines` counts all that were given, `lines_lost` those that could not be written.
    """

    def __init__(
        self,
        directory: Path,
        file_bytes_max: int = 64 << 20,
        files_max: int = 8,
        *,
        complain: Callable[[str], None],
        flush_s: float = FLUSH_S,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.lines = 0
        self.lines_lost = 0
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._files_max = max(1, files_max)
        self._complain = complain
        self._flush_s = flush_s
        self._buffer_bytes = buffer_bytes
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._oldest_s = 0.0
        self._file: BinaryIO | None = None
        self._file_bytes = 0
        self._failing = False

    def write(self, entry: Decision | Observation) -> None:
        """Take one entry; its `at_s` is the time."""
        line = encode_decision(entry) if isinstance(entry, Decision) else encode_observation(entry)
        if not self._waiting:
            self._oldest_s = entry.at_s
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self.lines += 1
        if self._waiting_bytes >= self._buffer_bytes:
            self.flush()
        else:
            self.tick(entry.at_s)

    def tick(self, now_s: float) -> None:
        """Write what has waited long enough. A driver calls it now and then, so that the last lines arrive too."""
        if self._waiting and now_s - self._oldest_s >= self._flush_s:
            self.flush()

    def flush(self) -> None:
        """Write everything that waits."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        while waiting:
            taken = self._fitting(waiting)
            try:
                self._append(b"".join(waiting[:taken]))
            except OSError as error:
                self._failed(error, len(waiting))
                return
            del waiting[:taken]
            self._failing = False

    def close(self) -> None:
        """Write everything and close the file. Nothing may be written after it."""
        self.flush()
        self._close_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fitting(self, lines: list[bytes]) -> int:
        """How many of `lines` the present file has room for; a new file takes at least one, however long."""
        room = self._file_bytes_max - self._file_bytes
        taken = 0
        for line in lines:
            room -= len(line)
            if room < 0:
                break
            taken += 1
        if taken == 0 and self._file_bytes:
            self._close_file()
            return self._fitting(lines)
        return max(1, taken)

    def _append(self, block: bytes) -> None:
        if self._file is None:
            self._file = self._next_file()
            self._file_bytes = 0
        written = self._file.write(block)
        if written != len(block):
            raise OSError(f"only {written} of {len(block)} bytes were written")
        self._file_bytes += written

    def _next_file(self) -> BinaryIO:
        files = record_files(self._directory)
        number = 1 + (int(files[-1].stem.removeprefix("decisions-")) if files else 0)
        for path in files[: max(0, len(files) + 1 - self._files_max)]:
            path.unlink(missing_ok=True)
        # Unbuffered: what is flushed is in the file, and an error belongs to the write that meets it.
        return (self._directory / f"decisions-{number:08d}.jsonl").open("xb", buffering=0)

    def _failed(self, error: OSError, lines: int) -> None:
        self.lines_lost += lines
        self._close_file()
        if not self._failing:
            self._failing = True
            self._complain(f"the decision record in {self._directory} cannot be written: {error}; lines are lost")

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._file_bytes = 0
            file.close()
