"""How an emulated engine waits for its model time, and how far it lags behind.

**Clock debt.** Virtual stamps do not move when the machine is busy, but what the outside sees of them comes late. A
first or a last token, or the end of a transfer, is late by the time from its stamp to the moment it is handed on; other
tokens are gathered on purpose and count as late only after twice the emit interval. Debt is the sum of this lateness
over all wake-ups, divided by the time from the first piece of work to the latest wake-up. So it is about the share of
the run in which an engine's outputs were overdue. Above `DEBT_MAX` a run's figures say more about the machine than
about the model, and are not valid.
"""

import asyncio
from collections.abc import Callable

from vicinal.clock import ModelClock

DEBT_MAX = 0.05

_EARLY_S = 0.0006
"""uvloop's timers count whole milliseconds and round, so one may fire up to half of one early. That is on time."""


class Alarm:
    """One timer for one owner: calls back when a stamp of model time has come, with the time that it then is."""

    def __init__(self, clock: ModelClock, ring: Callable[[float], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_s: float | None = None
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_s: float | None) -> None:
        """Ring at `at_s` instead of what was set before; None for not at all."""
        if at_s == self._at_s and self._handle is not None:
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._at_s = at_s
        if at_s is not None:
            self._handle = asyncio.get_running_loop().call_later(self._clock.wall_delay(at_s), self._fire)

    def _fire(self) -> None:
        at_s, now = self._at_s, self._clock.now()
        self._handle = None
        self._at_s = None
        if at_s is None:
            return
        if now < at_s - self._clock.model_s(_EARLY_S):
            self.set(at_s)
            return
        self._ring(max(now, at_s))


class ClockDebt:
    """Sums the lateness of one owner. All times are model seconds; the ratio is the same in wall seconds."""

    def __init__(self) -> None:
        self._late_s = 0.0
        self._begun_s: float | None = None
        self._latest_s = 0.0

    def begin(self, now: float) -> None:
        """Work has arrived: the run begins, unless it has before."""
        if self._begun_s is None:
            self._begun_s = self._latest_s = now

    def woke(self, now: float, due_s: float | None) -> None:
        """A wake-up at `now`; the earliest thing it handed on was due at `due_s`, None for nothing that can be late."""
        self._latest_s = max(self._latest_s, now)
        if due_s is not None:
            self._late_s += max(0.0, now - due_s)

    @property
    def ratio(self) -> float | None:
        """Lateness per run time, or None when there was no run yet."""
        if self._begun_s is None or self._latest_s <= self._begun_s:
            return None
        return self._late_s / (self._latest_s - self._begun_s)
