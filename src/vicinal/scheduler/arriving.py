"""Who is turned away at once when it arrives: over a quota, by pressure, too late, or a copy while clients wait."""

from collections.abc import Callable
from dataclasses import replace

from vicinal.domain.outcome import Ending, Outcome
from vicinal.scheduler.overload import Overload
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.tenancy import Tenancy, quota_refusal
from vicinal.scheduler.tracked import Tracked
from vicinal.scheduler.turns import Turns


class Arrivals:
    """`spread_s` is drawn for each that is told when to come back, so that those refused together come back apart."""

    def __init__(
        self,
        tenancy: Tenancy,
        overload: Overload,
        turns: Turns,
        settings: SchedulerSettings,
        spread_s: Callable[[], float],
    ) -> None:
        self._tenancy = tenancy
        self._overload = overload
        self._turns = turns
        self._settings = settings
        self._spread_s = spread_s

    def refused(self, tracked: Tracked, now: float) -> Outcome | None:
        """The outcome of a request that arrives and may not go on; None for the others."""
        request = tracked.request
        exceeded = self._tenancy.exceeded(request, now)
        if exceeded is not None:
            return quota_refusal(exceeded, self._spread_s(), self._settings)
        turned_away = self._overload.arrived(request, now)
        if turned_away is not None:
            return replace(turned_away, retry_after_s=self._settings.retry_after_s + self._spread_s())
        held = len(self._turns.flow)
        if request.copy_to is not None and held:
            return Outcome(Ending.NO_ENDPOINT, f"{held} requests wait for room, which a copy would take")
        late = self._turns.refused_early(tracked, now)
        if late is None:
            return None
        self._overload.came_too_late(request, now)
        return replace(late, retry_after_s=(late.retry_after_s or 0.0) + self._spread_s())
