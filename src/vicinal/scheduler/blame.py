"""Who is left out for a while after legs failed: an endpoint, or a pair. Both have circuits (flow/breakers.py).

Where an engine that lives could not carry out its half of a concurrent hand-off, nobody knows whose fault it is, and
the failure may stick to the pair (their session stays marked as failed): so the pair is to blame, at once. Otherwise it
is the endpoint of the leg. That takes no work until it reports again; an endpoint whose legs go on failing although it
reports is left out for longer.
"""

from collections.abc import Collection, Mapping
from typing import Any

from vicinal.cluster.state import ClusterState
from vicinal.cost.model import CostModel
from vicinal.domain.effects import Warn
from vicinal.domain.events import LegFailed
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.plan import Leg, Plan
from vicinal.flow.breakers import BreakerRule, Breakers, LeftOut
from vicinal.scheduler.tracked import Tracked

PAIRS = BreakerRule(failures_max=1, open_s=30.0)

Pair = tuple[EndpointId, EndpointId]
"""Who prefills, and who decodes."""


class Blame:
    """Changes the state's endpoints and the tables' pairs. `left_out` are endpoints by slot, whose circuit is open or
    has its probe under way."""

    def __init__(self, state: ClusterState, cost: CostModel, endpoints: BreakerRule) -> None:
        self.endpoints: Breakers[EndpointId] = Breakers(endpoints)
        self.pairs: Breakers[Pair] = Breakers(PAIRS)
        self.left_out: Mapping[int, LeftOut] = {}
        self._state = state
        self._cost = cost

    def sent(self, tracked: Tracked, *endpoints: EndpointId) -> None:
        """Legs of the request leave for these endpoints: where a circuit is half open it is the probe."""
        changed = False
        for endpoint in endpoints:
            changed |= self.endpoints.sent(endpoint, tracked.id)
        if tracked.concurrent and tracked.plan is not None:
            changed |= self.pairs.sent(_pair(tracked.plan), tracked.id)
        self._leave_out(changed)

    def leg_failed(
        self, tracked: Tracked, plan: Plan, endpoint: EndpointId, event: LegFailed, now: float
    ) -> list[Warn]:
        """The leg on `endpoint` failed, and its client is not to blame. Returns what to tell of it."""
        told = [Warn("leg_failed", endpoint, f"{event.leg} leg on {endpoint} failed: {event.reason}")]
        if tracked.concurrent and event.answered:
            self._leave_out(self.pairs.failed(_pair(plan), tracked.id, event.reason, now))
            return told
        self._state.lose(endpoint, now)
        tracked.tried.add(endpoint)
        if self.endpoints.failed(endpoint, tracked.id, event.reason, now):
            self._leave_out(True)
            until_s = self.endpoints.left_out()[endpoint].until_s
            open_s = 0.0 if until_s is None else until_s - now
            text = (
                f"{endpoint} is left out for {open_s:.0f} s, then tried by one request: its legs fail ({event.reason})"
            )
            told.append(Warn("circuit_open", endpoint, text))
        return told

    def worked(self, tracked: Tracked, leg: Leg) -> None:
        """A leg of the request was seen to work. If it is the one that decodes, so was the hand-off to it."""
        plan = tracked.plan
        if plan is None:
            return
        changed = self.endpoints.worked(plan.prefill if leg is Leg.PREFILL else plan.decode, tracked.id)
        if tracked.concurrent and leg is not Leg.PREFILL:
            changed |= self.pairs.worked(_pair(plan), tracked.id)
        self._leave_out(changed)

    def over(self, owner: RequestId) -> None:
        """No leg of the request's attempt is under way any more."""
        self._leave_out(self.endpoints.over(owner) | self.pairs.over(owner))

    def next_s(self) -> float | None:
        """When somebody may be tried again."""
        return min((at_s for at_s in (self.endpoints.next_s(), self.pairs.next_s()) if at_s is not None), default=None)

    def expire(self, now: float) -> None:
        self._leave_out(self.endpoints.expire(now) | self.pairs.expire(now))

    def fleet_changed(self, left: Collection[EndpointId]) -> None:
        """The tables are new, and these endpoints are gone; whoever has their names next has not failed."""
        self.endpoints.forget(lambda endpoint: endpoint in left)
        self.pairs.forget(lambda pair: pair[0] in left or pair[1] in left)
        self._leave_out(True)

    def shown(self) -> list[dict[str, Any]]:
        """Every circuit that is not closed to all, for operators."""
        found: list[tuple[Collection[EndpointId], LeftOut]] = [
            *(((endpoint,), out) for endpoint, out in self.endpoints.left_out().items()),
            *self.pairs.left_out().items(),
        ]
        return [
            {"between": list(who), "since_s": out.since_s, "until_s": out.until_s, "reason": out.reason}
            for who, out in found
        ]

    def _leave_out(self, changed: bool) -> None:
        if not changed:
            return
        slot = self._state.slot
        out = {slot(endpoint): why for endpoint, why in self.endpoints.left_out().items()}
        self.left_out = {at: why for at, why in out.items() if at is not None}
        slots = [(slot(prefill), slot(decode)) for prefill, decode in self.pairs.left_out()]
        self._cost.avoid([(p, d) for p, d in slots if p is not None and d is not None])


def _pair(plan: Plan) -> Pair:
    return plan.prefill, plan.decode
