"""Drives one engine model under the clock: gives it works, wakes when it has something to show, and shows it.

First and last tokens are shown when their stamp has come. Other tokens are gathered: streams are woken for them at most
once per emit interval, and then get everything that has been generated since, so the cost of a token falls as the speed
rises.
"""

from collections.abc import Callable, Sequence

from vicinal.clock import ModelClock
from vicinal.emulator.clock import Alarm, ClockDebt
from vicinal.emulator.leg import RunningLeg
from vicinal.emulator.transfers import Pull, Transfers
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.holds import Hold
from vicinal.enginemodel.work import (
    BlocksEvicted,
    BlocksSealed,
    CacheChange,
    CacheCleared,
    Finished,
    Generated,
    PullWanted,
)


class EngineDriver:
    """`on_cache` gets changes of the cache in order, `on_finished` each leg that came to its end.

    `on_tokens(n, between_s)`: n more tokens came, on average `between_s` after the token before.
    """

    def __init__(
        self,
        engine: Engine,
        slot: int,
        clock: ModelClock,
        transfers: Transfers,
        emit_interval_s: float,
        on_cache: Callable[[Sequence[CacheChange]], None],
        on_finished: Callable[[RunningLeg, Finished], None],
        on_tokens: Callable[[int, float], None],
    ) -> None:
        self.engine = engine
        self.slot = slot
        self.debt = ClockDebt()
        self._clock = clock
        self._transfers = transfers
        self._emit_s = clock.model_s(emit_interval_s)
        self._on_cache = on_cache
        self._on_finished = on_finished
        self._on_tokens = on_tokens
        self._legs: dict[str, RunningLeg] = {}
        self._pulls: dict[str, Pull] = {}
        self._unshown: dict[str, RunningLeg] = {}
        self._shown_s = 0.0
        self._gather_until_s: float | None = None
        self._last_token_s: dict[str, float] = {}
        self._alarm = Alarm(clock, self._pump)
        self._stopped = False

    @property
    def legs(self) -> int:
        return len(self._legs)

    def submit(self, leg: RunningLeg, pull: Pull | None) -> None:
        """Give the leg's work to the engine. Raises what Engine.submit raises, and then nothing is kept."""
        now = self._clock.now()
        self._transfers.pump(now)
        self.engine.submit(leg.work, now)
        self.debt.begin(now)
        self._legs[leg.work.id] = leg
        if pull is not None:
            self._pulls[leg.work.id] = pull
        self._pump(now)

    def cancel(self, work_id: str) -> bool:
        """Drop a leg and what it uses. False when it was over already."""
        if self._legs.pop(work_id, None) is None or self._stopped:
            return False
        now = self._clock.now()
        self._forget(work_id, now)
        self.engine.cancel(work_id, now)
        self._pump(now)
        return True

    def claim(self, hold_id: str) -> Hold | None:
        return None if self._stopped else self.engine.claim(hold_id, self._clock.now())

    def keeps(self, hold_id: str) -> bool:  # noqa: ARG002 (it was claimed)
        """What is pulled from an engine directly was computed before."""
        return True

    def release(self, hold_id: str, at_s: float) -> None:
        """What a finished prefill left here is not needed any more."""
        if not self._stopped:
            self.engine.release(hold_id, at_s)
            self._pump(self._clock.now())

    def pulled(self, work_id: str, at_s: float) -> None:
        """The transfer for this work ended at `at_s`."""
        pull = self._pulls.pop(work_id, None)
        if pull is None or self._stopped:
            return
        self.engine.pulled(work_id, at_s)
        self._pump(self._clock.now())

    def lose_holder(self, holder: "EngineDriver") -> None:
        """Another engine died: whoever was to pull from it fails."""
        for work_id in [w for w, pull in self._pulls.items() if pull.holder is holder]:
            leg = self._legs.get(work_id)
            self.cancel(work_id)
            if leg is not None:
                leg.fail("the engine that held this request's KV is gone")

    def refresh(self) -> None:
        """Bring the model up to date before its figures are read."""
        self._pump(self._clock.now())

    def reset_prefix_cache(self) -> bool:
        done = self.engine.reset_prefix_cache(self._clock.now())
        self.refresh()
        return done

    def stop(self) -> None:
        """The engine is dead: nothing of it happens any more, and what it was pulling is let go."""
        self._stopped = True
        self._alarm.set(None)
        now = self._clock.now()
        for work_id in list(self._pulls):
            self._forget(work_id, now)
        for leg in self._legs.values():
            leg.fail("the engine is gone")
        self._legs.clear()

    def _forget(self, work_id: str, now: float) -> None:
        self._unshown.pop(work_id, None)
        self._last_token_s.pop(work_id, None)
        pull = self._pulls.pop(work_id, None)
        if pull is not None:
            self._transfers.abandon(work_id, pull, now)

    def _pump(self, now: float) -> None:
        if self._stopped:
            return
        self._transfers.pump(now)
        changes: list[CacheChange] = []
        wanted: list[PullWanted] = []
        due_s: float | None = None
        for output in self.engine.advance(now):
            if isinstance(output, Generated):
                if self._generated(output) and (due_s is None or output.first_s < due_s):
                    due_s = output.first_s
            elif isinstance(output, Finished):
                if self._finish(output) and (due_s is None or output.finished_s < due_s):
                    due_s = output.finished_s
            elif isinstance(output, PullWanted):
                wanted.append(output)
            elif isinstance(output, BlocksSealed | BlocksEvicted | CacheCleared):
                changes.append(output)
        if changes:
            self._on_cache(changes)
        if self._gather_until_s is not None and now >= self._gather_until_s:
            overdue_s = self._gather_until_s + self._emit_s
            due_s = overdue_s if due_s is None else min(due_s, overdue_s)
            self._show(now)
        self.debt.woke(now, due_s)
        for output in wanted:
            # A work that was cancelled while its engine caught up may have asked just before.
            if (pull := self._pulls.get(output.id)) is not None:
                self._transfers.start(output.id, pull, self, output.blocks, output.at_s)
        self._arm(now)

    def _generated(self, output: Generated) -> bool:
        """True for a work's first token, which is shown at once."""
        leg = self._legs.get(output.id)
        if leg is None:
            return False
        leg.generated = output.first + output.count
        first = not output.first
        if first:
            leg.wake()
        else:
            self._unshown[output.id] = leg
        # The first token has no token before it to be measured from.
        since_s, gaps = (output.first_s, output.count - 1) if first else (self._last_token_s[output.id], output.count)
        if gaps:
            self._on_tokens(gaps, (output.last_s - since_s) / gaps)
        self._last_token_s[output.id] = output.last_s
        return first

    def _finish(self, output: Finished) -> bool:
        self._unshown.pop(output.id, None)
        self._last_token_s.pop(output.id, None)
        leg = self._legs.pop(output.id, None)
        if leg is None:
            return False
        leg.finished = output
        leg.wake()
        self._on_finished(leg, output)
        return True

    def _show(self, now: float) -> None:
        for leg in self._unshown.values():
            leg.wake()
        self._unshown.clear()
        self._shown_s = now
        self._gather_until_s = None

    def _arm(self, now: float) -> None:
        event_s = self.engine.next_event_s()
        if event_s is None:
            self._gather_until_s = None
            self._alarm.set(None)
            return
        if self._gather_until_s is None and (self._unshown or self.engine.running):
            self._gather_until_s = max(now if self._unshown else event_s, self._shown_s + self._emit_s)
        milestone_s = self.engine.next_milestone_s()
        times_s = [t for t in (milestone_s, self._gather_until_s) if t is not None]
        self._alarm.set(min(times_s, default=event_s))
