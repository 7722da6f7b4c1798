"""Who is left out for a while after a leg failed: the endpoint, or the pair.

Where an engine that lives could not carry out its half of a concurrent hand-off, nobody knows whose fault it is, so the
pair is left out (failed_pairs.py). Otherwise it is the endpoint of the leg, until it reports again.
"""

from collections.abc import Collection

from vicinal.cluster.state import ClusterState
from vicinal.cost.model import CostModel
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Plan
from vicinal.scheduler.failed_pairs import FailedPairs
from vicinal.scheduler.tracked import Tracked


class Blame:
    """Changes the state's endpoints and the tables' pairs."""

    def __init__(self, state: ClusterState, cost: CostModel) -> None:
        self.pairs = FailedPairs()
        self._state = state
        self._cost = cost

    def leg_failed(self, tracked: Tracked, plan: Plan, endpoint: EndpointId, answered: bool, now: float) -> None:
        """The leg on `endpoint` failed; `answered` says that the engine itself said so."""
        if tracked.concurrent and answered:
            self.pairs.note((plan.prefill, plan.decode), now)
            self._leave_out()
        else:
            self._state.lose(endpoint, now)
            tracked.tried.add(endpoint)

    def worked(self, tracked: Tracked) -> None:
        """The first token came: the hand-off worked."""
        plan = tracked.plan
        if tracked.concurrent and plan is not None and self.pairs.worked((plan.prefill, plan.decode)):
            self._leave_out()

    def next_s(self) -> float | None:
        """When a pair may be tried again."""
        return self.pairs.next_s()

    def expire(self, now: float) -> None:
        if self.pairs.expire(now):
            self._leave_out()

    def fleet_changed(self, left: Collection[EndpointId]) -> None:
        """The tables are new, and these endpoints are gone."""
        self.pairs.forget(frozenset(left))
        self._leave_out()

    def _leave_out(self) -> None:
        slot = self._state.slot
        slots = [(slot(prefill), slot(decode)) for prefill, decode in self.pairs.avoided()]
        self._cost.avoid([(p, d) for p, d in slots if p is not None and d is not None])
