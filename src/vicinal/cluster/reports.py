"""What engines said last, and how much load of others that reveals.

A stock engine's report carries no sequence number, so ours and others' work in it cannot be told apart exactly. Load
that is not ours is what the report shows beyond our own count when it came, and never less than none. A request of ours
that ends while a report is under way would look like a stranger, so a stranger must appear in two reports in a row.
"""

from dataclasses import dataclass, fields

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
    ]
)
_SILENT = np.array((-np.inf, False, -np.inf, np.nan, np.nan, np.nan, np.nan, 0.0, 0.0, 0.0, 0.0), dtype=_FIELDS)


@dataclass(frozen=True, slots=True)
class Said:
    """What the latest reports say, per slot, as arrays to compute with: good until the next report."""

    reported_s: Floats
    reachable: NDArray[np.bool_]
    foreign_requests: Floats
    foreign_blocks: Floats
    gpu_utilization: Floats
    waiting: Floats
    running: Floats
    kv_usage: Floats


class Reports:
    """One record per slot. A report that never came has `reported_s` of -inf; a figure not given is NaN."""

    def __init__(self) -> None:
        self.table = np.full(0, _SILENT, dtype=_FIELDS)
        self._said: Said | None = None

    @property
    def said(self) -> Said:
        """A new object after each change; the same one until then."""
        if self._said is None:
            self._said = Said(*(np.ascontiguousarray(self.table[field.name]) for field in fields(Said)))
        return self._said

    def resize(self, slots: int) -> None:
        table = np.full(slots, _SILENT, dtype=_FIELDS)
        kept = min(slots, len(self.table))
        table[:kept] = self.table[:kept]
        self.table = table
        self._said = None

    def forget(self, slot: int) -> None:
        """The slot's endpoint left: nothing is known of whoever comes next."""
        self.table[slot] = _SILENT
        self._said = None

    def take(self, slot: int, report: EndpointReport, own_requests: float, own_blocks: float, kv_blocks: float) -> None:
        """Take in a report. `own_*` is what the ledger had on that slot when the report came.

        A report that was overtaken by a later one, or by a failure, says nothing any more.
        """
        row = self.table[slot]
        if report.scraped_s < row["reported_s"] or report.scraped_s < row["lost_s"]:
            return
        self._said = None
        row["reported_s"] = report.scraped_s
        row["reachable"] = True
        row["waiting"] = _figure(report.waiting)
        row["running"] = _figure(report.running)
        row["kv_usage"] = _figure(report.kv_usage)
        row["gpu_utilization"] = _figure(report.gpu_utilization)
        if report.waiting is not None and report.running is not None:
            extra = max(0.0, report.waiting + report.running - own_requests)
            row["foreign_requests"] = min(extra, row["seen_requests"])
            row["seen_requests"] = extra
        if report.kv_usage is not None:
            extra = max(0.0, report.kv_usage * kv_blocks - own_blocks)
            row["foreign_blocks"] = min(extra, row["seen_blocks"])
            row["seen_blocks"] = extra

    def lose(self, slot: int, now: float) -> bool:
        """The endpoint did not answer: it takes no new work until it reports again. True when that is news."""
        news = bool(self.table[slot]["reachable"] or self.table[slot]["lost_s"] == -np.inf)
        self.table[slot]["reachable"] = False
        self.table[slot]["lost_s"] = now
        self._said = None
        return news

    def ages_s(self, now: float) -> NDArray[np.float64]:
        """Per slot; infinite where no report ever came."""
        return np.maximum(now - self.said.reported_s, 0.0)


def _figure(value: float | None) -> float:
    return float("nan") if value is None else float(value)
