"""The live driver of the core: one event in, effects out, one timer.

The core knows neither loops nor clocks. This driver reads the clock once per event, hands both over, carries the
effects to whoever performs them, and keeps exactly one timer armed for the core's next alarm. Events that are posted
while an event is handled (an effect that fails at once, for example) wait their turn, so the core sees a sequence.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from vicinal.clock import ModelClock
from vicinal.domain.decision import Decision, Observation
from vicinal.domain.effects import Answer, Cancel, Dispatch, Effect, Record, RecordObservation, Warn
from vicinal.domain.events import AlarmRang, Event, RequestArrived
from vicinal.gateway.link import RelayEffect

DECISIONS_KEPT = 65_536


class Scheduler(Protocol):
    """What the driver needs of the core."""

    def handle(self, event: Event, now_s: float) -> Sequence[Effect]:
        """Take one fact in; say what is to be done. `now_s` is in model seconds and never decreases."""
        ...

    def next_alarm(self) -> float | None:
        """The model second at which the core wants to be woken, or None."""
        ...


class CoreDriver:
    """Feeds one scheduler. Implements `CoreLink`.

    `capture`, when given, sees every event with its `now` before the core does: the exact log for a replay.
    `record` gets each decision with the wall seconds of the `handle` call that it came of.
    `decision_us` holds the wall microseconds of the latest `handle(RequestArrived)` calls.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: ModelClock,
        loop: asyncio.AbstractEventLoop,
        perform: Callable[[RelayEffect], None],
        *,
        record: Callable[[Decision, float], None],
        observe: Callable[[Observation], None],
        warn: Callable[[Warn], None],
        capture: Callable[[Event, float], None] | None = None,
    ) -> None:
        self.decision_us: deque[float] = deque(maxlen=DECISIONS_KEPT)
        self._scheduler = scheduler
        self._clock = clock
        self._loop = loop
        self._perform = perform
        self._record = record
        self._observe = observe
        self._warn = warn
        self._capture = capture
        self._waiting: deque[Event] = deque()
        self._draining = False
        self._closed = False
        self._now_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._alarm_s: float | None = None

    def post(self, event: Event) -> None:
        """Hand `event` to the core, now or right after the event that is being handled. After `close`: nothing."""
        if self._closed:
            return
        self._waiting.append(event)
        if self._draining:
            return
        self._draining = True
        try:
            while self._waiting:
                self._handle(self._waiting.popleft())
        finally:
            self._draining = False
            self._arm()

    def close(self) -> None:
        """Stop the timer; later events are dropped."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _handle(self, event: Event) -> None:
        now_s = self._now_s = max(self._now_s, self._clock.now())
        if self._capture is not None:
            self._capture(event, now_s)
        started_ns = time.perf_counter_ns()
        effects = self._scheduler.handle(event, now_s)
        took_ns = time.perf_counter_ns() - started_ns
        if isinstance(event, RequestArrived):
            self.decision_us.append(took_ns / 1e3)
        for effect in effects:
            self._route(effect, took_ns / 1e9)

    def _route(self, effect: Effect, took_s: float) -> None:
        match effect:
            case Dispatch() | Cancel() | Answer():
                self._perform(effect)
            case Record(decision):
                self._record(decision, took_s)
            case RecordObservation(observation):
                self._observe(observation)
            case Warn():
                self._warn(effect)

    def _arm(self) -> None:
        alarm_s = self._scheduler.next_alarm()
        if self._closed or (alarm_s == self._alarm_s and self._timer is not None):
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._alarm_s = alarm_s
        if alarm_s is not None:
            self._timer = self._loop.call_later(self._clock.wall_delay(alarm_s), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._alarm_s is not None and self._clock.now() < self._alarm_s:
            self._arm()  # loops round timers to their resolution and may call early; the core is not woken before time
            return
        self.post(AlarmRang())
