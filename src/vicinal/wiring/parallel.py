"""Runs side by side in processes of their own: a run is one core's work from its beginning to its end."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from vicinal.wiring.runs import Run, execute
from vicinal.wiring.simulated import Outcome

OnDone = Callable[[int, Outcome], None]
"""Is given the position of a run and what came of it, as runs end."""


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute_all(runs: Sequence[Run], processes: int, on_done: OnDone = lambda _place, _outcome: None) -> list[Outcome]:
    """All outcomes in the order of `runs`. The first run that is refused stops the rest, and its error is raised."""
    if processes <= 1 or len(runs) <= 1:
        outcomes = []
        for place, run in enumerate(runs):
            outcomes.append(execute(run))
            on_done(place, outcomes[-1])
        return outcomes
    found: dict[int, Outcome] = {}
    with ProcessPoolExecutor(min(processes, len(runs)), mp_context=get_context("forkserver")) as pool:
        pending = {pool.submit(execute, run): place for place, run in enumerate(runs)}
        try:
            for future in as_completed(pending):
                place = pending[future]
                found[place] = future.result()
                on_done(place, found[place])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[place] for place in range(len(runs))]
