"""How far simulated runs are. A file or pipe gets a line now and then on long work."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

QUIET_S = 15.0
"""A file or pipe is told no more often than this."""


class RunProgress:
    """A context in which one run, or `total` of them, show how far they are."""

    def __init__(self, console: Console, total: int | None = None) -> None:
        columns = [BarColumn(), MofNCompleteColumn()] if total is not None else [SpinnerColumn()]
        self._progress = Progress(
            *columns,
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=total)
        self._console = console
        self._told_s = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def arrived(self, requests: int, now_s: float) -> None:
        """One run has come so far."""
        self._progress.update(self._task, description=f"{requests:,} requests, {now_s:,.0f} s of virtual time")

    def say(self, words: str) -> None:
        """What is being done now."""
        self._progress.update(self._task, description=words)
        self._tell(words)

    def done(self, words: str) -> None:
        """One more run is over."""
        self._progress.update(self._task, advance=1, description=words)
        self._tell(words)

    def _tell(self, words: str) -> None:
        if not self._console.is_terminal and time.monotonic() - self._told_s > QUIET_S:
            self._told_s = time.monotonic()
            self._console.print(words, highlight=False, soft_wrap=True)
