"""Runs side by side in processes of their own: a run is one core's work from its beginning to its end."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from types import TracebackType
from typing import Self

from vicinal.wiring.runs import Run, execute
from vicinal.wiring.simulated import Outcome

OnDone = Callable[[int, Outcome], None]
"""Is given the position of a run and what came of it, as runs end."""


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A context of `count` processes that keep what they have read; with one, runs are made in this process."""

    def __init__(self, count: int) -> None:
        self._pool = ProcessPoolExecutor(count, mp_context=get_context("forkserver")) if count > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def outcomes(self, runs: Sequence[Run], on_done: OnDone = lambda _place, _outcome: None) -> list[Outcome]:
        """All outcomes in the order of `runs`. The first run that is refused ends it, and its error is raised."""
        found: dict[int, Outcome] = {}
        if self._pool is None or len(runs) == 1:
            for place, run in enumerate(runs):
                found[place] = execute(run)
                on_done(place, found[place])
        else:
            pending = {self._pool.submit(execute, run): place for place, run in enumerate(runs)}
            try:
                for future in as_completed(pending):
                    place = pending[future]
                    found[place] = future.result()
                    on_done(place, found[place])
            finally:
                for future in pending:
                    future.cancel()
        return [found[place] for place in range(len(runs))]
