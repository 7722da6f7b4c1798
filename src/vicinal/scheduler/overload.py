"""What is too much, and what follows: limits of engines' queues, pressure, and our own retries.

It is told what happens, in the same words as its parts (flow/limits, flow/pressure, flow/retries.py), and answers what
the scheduler asks: how long an engine's queue may be, whom to turn away, whether to try again.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.state import ClusterState
from vicinal.cost.model import CostModel
from vicinal.domain.effects import Warn
from vicinal.domain.events import Measured
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.outcome import Outcome
from vicinal.domain.plan import Leg
from vicinal.domain.request import Request
from vicinal.flow.breakers import BreakerRule
from vicinal.flow.flow import Flow
from vicinal.flow.limits.registry import limit
from vicinal.flow.pressure.pressure import Pressure, PressureRule
from vicinal.flow.pressure.shedding import may_be_shed, shed
from vicinal.flow.retries import RetryBudget, RetryRule
from vicinal.scheduler.observing import prefill_s, term
from vicinal.scheduler.tracked import Tracked


@dataclass(frozen=True, slots=True)
class OverloadSettings:
    """`limit` is in words (flow/limits/registry.py). Without `sheds`, pressure turns nobody away. `circuits` are the
    endpoints'."""

    limit: str = "fixed:seconds=1.0"
    sheds: bool = True
    pressure: PressureRule = field(default_factory=PressureRule)
    retries: RetryRule = field(default_factory=RetryRule)
    circuits: BreakerRule = field(default_factory=BreakerRule)


class Overload:
    """Raises UnknownWordError for a limit that there is not."""

    def __init__(self, state: ClusterState, cost: CostModel, settings: OverloadSettings) -> None:
        self.limit = limit(settings.limit)
        self.pressure = Pressure(settings.pressure, state.freshness.heartbeat_s)
        self.retries = RetryBudget(settings.retries)
        self._sheds = settings.sheds
        self._state = state
        self._cost = cost

    @property
    def limit_s(self) -> NDArray[np.float64]:
        """Per slot, seconds of prefill that may wait there."""
        return self.limit.limit_s

    def arrived(self, request: Request, now: float) -> Outcome | None:
        """A request arrives. Returns its outcome when pressure turns it away, without a time to come back."""
        self.retries.asked(request.tenant, now)
        return shed(request, self._state.fleet.slots, self.pressure) if self._sheds else None

    def no_retry(self, tracked: Tracked, attempts_max: int, now: float) -> str | None:
        """An attempt of the request came to nothing. None when it may have another, which its tenant has
        paid for; otherwise the detail of its outcome: empty where it has had `attempts_max`."""
        if tracked.attempt >= attempts_max:
            return ""
        return None if self.retries.take(tracked.request.tenant, now) else "retry_budget"

    def prefilled(self, tracked: Tracked, now: float) -> None:
        """The prefill leg of the request's attempt answered, or its only leg has prefilled."""
        found = self._prefilling(tracked)
        if found is None:
            return
        slot, dispatched_s = found
        wait_s, predicted_s = term(tracked.first_decision, "wait_prefill"), prefill_s(tracked.first_decision)
        if wait_s is not None and predicted_s is not None:
            self.limit.observe(slot, wait_s, predicted_s, now - dispatched_s, now)

    def leg_failed(self, tracked: Tracked, leg: Leg, now: float) -> None:
        """A leg of the request failed, and its client is not to blame. Only one that prefills tells of a limit."""
        if leg is Leg.DECODE or tracked.first_token_s is not None:
            return
        found = self._prefilling(tracked)
        if found is not None:
            slot, dispatched_s = found
            self.limit.failed(slot, now - dispatched_s, now)

    def first_token(self, tracked: Tracked, now: float) -> None:
        """The first token of the request came."""
        if tracked.leg is Leg.WHOLE:
            self.prefilled(tracked, now)
        request, plan = tracked.request, tracked.plan
        if request.copy_to is None and not may_be_shed(request.band):
            slot = None if plan is None else self._state.slot(plan.prefill)
            missed = now - tracked.arrived_s > self._cost.objective_s(request)
            self.pressure.missed.add(request.model, slot, missed, now)

    def came_too_late(self, request: Request, now: float) -> None:
        """The request was refused, or given up, because its first token would have come too late."""
        if not may_be_shed(request.band):
            self.pressure.missed.add(request.model, None, True, now)

    def measured(self, event: Measured, now: float) -> list[Warn]:
        """Somebody measured a signal. What the core finds out by itself nobody else can tell it."""
        signal, value = event.signal, event.value
        if signal.measured and (value is None or 0.0 <= value < np.inf):
            self.pressure.measurements.take(signal, event.endpoint, value, now)
            return []
        why = "is no figure" if signal.measured else "is not measured by others"
        return [Warn("measured_unusable", event.endpoint, f"{signal} = {value} {why}: it was not taken in")]

    def look(self, flow: Flow, now: float) -> list[Warn]:
        """Read the signals of pressure, if it is time. Returns what has changed."""
        if not self.pressure.due(now):
            return []

        def held_s(model: ModelId) -> float:
            queue = flow.models.get(model)
            bands = () if queue is None else queue.bands.items()
            return sum(waiting.prefill_s for band, each in bands if not may_be_shed(band) for waiting in each)

        found = self.pressure.look(self._state.view(now), self.limit_s, held_s, now)
        self._state.pressure_s = self.pressure.surcharge_s
        return found

    def fleet_changed(self, left: dict[int, EndpointId]) -> None:
        """The endpoints of these slots are gone; others may have their slots."""
        self.limit.resize(len(self._state.fleet))
        for slot in left:
            self.limit.forget(slot)
        self.pressure.fleet_changed(self._state.fleet, left.keys(), left.values())
        self._state.pressure_s = self.pressure.surcharge_s

    def _prefilling(self, tracked: Tracked) -> tuple[int, float] | None:
        """The slot of its prefill, and when that was sent; None when the endpoint is gone. For a copy nothing is
        computed, so it says nothing of its endpoint's speed."""
        decision, dispatched_s = tracked.first_decision, tracked.dispatched_s
        if decision is None or dispatched_s is None or tracked.request.copy_to is not None:
            return None
        slot = self._state.slot(decision.chosen.plan.prefill)
        return None if slot is None else (slot, dispatched_s)
