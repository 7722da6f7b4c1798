"""Pressure: how near an endpoint, or all of a model, is to having too much, and what says so."""

from enum import StrEnum


class PressureLevel(StrEnum):
    """`SOFT` makes an endpoint dearer and stops background work. `HARD` sheds work of the lowest bands too."""

    NORMAL = "normal"
    SOFT = "soft"
    HARD = "hard"

    @property
    def rank(self) -> int:
        """0 is no pressure."""
        return _RANKS[self]


_RANKS = {level: rank for rank, level in enumerate(PressureLevel)}


class Signal(StrEnum):
    """What pressure is read from.

    `QUEUE` is work that waits, in limits (contracts/limit.py): what waits in an engine's own queue; for a model also
    what of its upper bands waits here. `HBM` is the share of blocks in use. `REPORT_AGE` is in heartbeats. `EVENT_LAG`
    is how late KV events come, in seconds. `TTFT` is the share of first tokens that came after their objective.
    `COPY_QUEUE` is in seconds of copying that wait, `REMOTE_READ` the p99 of reads from another engine, in seconds.
    """

    QUEUE = "queue"
    HBM = "hbm"
    REPORT_AGE = "report_age"
    EVENT_LAG = "event_lag"
    TTFT = "ttft"
    COPY_QUEUE = "copy_queue"
    REMOTE_READ = "remote_read"

    @property
    def measured(self) -> bool:
        """Told by the event `Measured`; the core finds the others out by itself."""
        return self in (Signal.EVENT_LAG, Signal.COPY_QUEUE, Signal.REMOTE_READ)
