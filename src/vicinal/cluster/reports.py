"""What engines said last, and how much load of others that reveals.

A stock engine's report carries no sequence number, so ours and others' work in it cannot be told apart exactly. Load
that is not ours is what the report shows beyond our own count when it came, and never less than none. A request of ours
that ends while a report is under way would look like a stranger, so a stranger must appear in two reports in a row.
"""

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.report import EndpointReport

Floats = NDArray[np.float64]

_FIELDS = np.dtype(
    [
        ("reported_s", np.float64),
        ("reachable", np.bool_),
        ("lost_s", np.float64),
        ("waiting", np.float64),
        ("running", np.float64),
        ("kv_usage", np.float64),
        ("gpu_utilization", np.float64),
        ("foreign_requests", np.float64),
        ("foreign_blocks", np.float64),
        ("seen_requests", np.float64),
        ("seen_blocks", np.float64),
    ],
    align=True,
)
_SILENT = np.array((-np.inf, False, -np.inf, np.nan, np.nan, np.nan, np.nan, 0.0, 0.0, 0.0, 0.0), dtype=_FIELDS)


class Reports:
    """One record per slot in `table`. A report that never came has `reported_s` of -inf; a figure not given is NaN.

    The columns are there by name too, as arrays to compute with: views of the table, so they change with it.
    `changes` counts when it was news who answers or how much load is of others; most reports only confirm that.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._lay_out(np.full(0, _SILENT, dtype=_FIELDS))

    def resize(self, slots: int) -> None:
        table = np.full(slots, _SILENT, dtype=_FIELDS)
        kept = min(slots, len(self.table))
        table[:kept] = self.table[:kept]
        self._lay_out(table)

    def forget(self, slot: int) -> None:
        """The slot's endpoint left: nothing is known of whoever comes next."""
        self.table[slot] = _SILENT
        self.changes += 1

    def take(self, slot: int, report: EndpointReport, own_requests: float, own_blocks: float, kv_blocks: float) -> None:
        """Take in a report. `own_*` is what the ledger had on that slot when the report came.

        A report that was overtaken by a later one, or by a failure, says nothing any more.
        """
        at_s, waiting, running, kv_usage = report.scraped_s, report.waiting, report.running, report.kv_usage
        if at_s < self.reported_s[slot] or at_s < self._lost_s[slot]:
            return
        self.reported_s[slot] = at_s
        if not self.reachable[slot]:
            self.reachable[slot] = True
            self.changes += 1
        self.waiting[slot] = np.nan if waiting is None else waiting
        self.running[slot] = np.nan if running is None else running
        self.kv_usage[slot] = np.nan if kv_usage is None else kv_usage
        self.gpu_utilization[slot] = np.nan if report.gpu_utilization is None else report.gpu_utilization
        if waiting is not None and running is not None:
            self._see(self.foreign_requests, self._seen_requests, slot, max(0.0, waiting + running - own_requests))
        if kv_usage is not None:
            self._see(self.foreign_blocks, self._seen_blocks, slot, max(0.0, kv_usage * kv_blocks - own_blocks))

    def lose(self, slot: int, now: float) -> bool:
        """The endpoint did not answer: it takes no new work until it reports again. True when that is news."""
        news = bool(self.reachable[slot] or self._lost_s[slot] == -np.inf)
        self.reachable[slot] = False
        self._lost_s[slot] = now
        self.changes += 1
        return news

    def ages_s(self, now: float) -> Floats:
        """Per slot; infinite where no report ever came."""
        return np.maximum(now - self.reported_s, 0.0)

    def _lay_out(self, table: NDArray[np.void]) -> None:
        self.table = table
        self.reported_s: Floats = table["reported_s"]
        self.reachable: NDArray[np.bool_] = table["reachable"]
        self.waiting: Floats = table["waiting"]
        self.gpu_utilization: Floats = table["gpu_utilization"]
        self.foreign_requests: Floats = table["foreign_requests"]
        self.foreign_blocks: Floats = table["foreign_blocks"]
        self.running: Floats = table["running"]
        self.kv_usage: Floats = table["kv_usage"]
        self._lost_s: Floats = table["lost_s"]
        self._seen_requests: Floats = table["seen_requests"]
        self._seen_blocks: Floats = table["seen_blocks"]
        self.changes += 1

    def _see(self, foreign: Floats, seen: Floats, slot: int, extra: float) -> None:
        """`extra` of a figure are not ours; as much of it as the report before showed too is a stranger's."""
        strange = min(extra, seen[slot])
        seen[slot] = extra
        if strange != foreign[slot]:
            foreign[slot] = strange
            self.changes += 1
