"""Who waits for a turn, and who gets it when room may have been made."""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from vicinal.cluster.state import ClusterState
from vicinal.contracts.flow import Waiting
from vicinal.cost.model import CostModel
from vicinal.domain.ids import ModelId, RequestId
from vicinal.domain.lane import Lane
from vicinal.domain.outcome import Outcome
from vicinal.domain.request import Request
from vicinal.domain.verdict import Rule
from vicinal.flow.closed import Closed
from vicinal.flow.gate import opens_s
from vicinal.flow.made import make_flow
from vicinal.flow.passing import Passing
from vicinal.scheduler.awaited import ITS_TURN, LONG_ENDS, Awaited, awaited
from vicinal.scheduler.cycle import Cycle, Placed
from vicinal.scheduler.early import FORECASTS, EarlyRejection, patience_until_s
from vicinal.scheduler.filters import Filtered
from vicinal.scheduler.kept import Kept
from vicinal.scheduler.refusal import passes
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.tracked import Tracked


class Turns:
    """`requests` are all that are tracked. A request waits here from `wait` until `leave`."""

    def __init__(
        self,
        state: ClusterState,
        cost: CostModel,
        cycle: Cycle,
        settings: SchedulerSettings,
        requests: Mapping[RequestId, Tracked],
    ) -> None:
        self.flow = make_flow(settings.flow, settings.held_max, settings.tenants, self._reusable_tokens)
        self.early = EarlyRejection(state, cost, self.flow, FORECASTS[settings.early_rejection])
        self.passing = Passing()
        self.kept = Kept()
        self._state = state
        self._cost = cost
        self._cycle = cycle
        self._lanes = settings.flow.lanes
        self._tenants = settings.tenants
        self._hold_s_max = settings.hold_s_max
        self._requests = requests
        self._long: dict[RequestId, ModelId] = {}
        self._opens_s: float | None = None

    def at_once(self, tracked: Tracked, now: float) -> Placed | Filtered | None:
        """A place for a request in front of which nobody waits. None: it is a long one, and enough of those run. A copy
        is in no lane: nothing is computed for it."""
        request = tracked.request
        if request.copy_to is None and self.lane(tracked) is Lane.LONG and self._enough_long(request.model, now):
            return None
        return self._plan(tracked, now)

    def lane(self, tracked: Tracked) -> Lane:
        """Which lane it takes; decided when it is first asked for, with what is known of its prefix then."""
        if tracked.lane is None:
            request, mean_s = tracked.request, self._cost.price.mean_service_s
            tracked.lane = self._lanes.of(self._cost.least_prefill_s(request, 0), mean_s)
            if tracked.lane is Lane.LONG:
                tracked.lane = self._lanes.of(self._prefill_s(request), mean_s)
        return tracked.lane

    def refused_early(self, tracked: Tracked, now: float) -> Outcome | None:
        """What to tell a newcomer that cannot be served in time."""
        return self.early.refusal(tracked, self._waiting(tracked, now), now) if self.early.refuses else None

    def wait(self, tracked: Tracked, now: float) -> Waiting | None:
        """It waits from now on. Returns whoever has no place in the queue any more: another, or itself. Where late
        newcomers are refused, it waits no longer than it may to be in time."""
        waiting = self._waiting(tracked, now)
        if self.early.refuses:
            last_s = max(now, patience_until_s(waiting) - waiting.prefill_s)
            waiting = replace(waiting, until_s=min(waiting.until_s, last_s))
        self.passing.waits(tracked.request)
        return self.flow.add(waiting)

    def _waiting(self, tracked: Tracked, now: float) -> Waiting:
        request, service = tracked.request, tracked.request.service
        return Waiting(
            request,
            self.lane(tracked),
            self._prefill_s(request),
            tracked.arrived_s,
            tracked.arrived_s + self._cost.objective_s(request),
            now + (self._hold_s_max if service.wait_s_max is None else service.wait_s_max),
            request.tenant if self._tenants.reserves(request.tenant) else "",
        )

    def leave(self, tracked: Tracked) -> None:
        """It waits no longer, for whatever reason. Does nothing for one that does not wait."""
        waiting = self.flow.remove(tracked.id)
        if waiting is None:
            return
        what_for = self.kept.what_for(waiting, self._state.ledger)
        tracked.held_for = "" if what_for is None else what_for.words
        tracked.passed_by = self.passing.leaves(tracked.request)
        if not self.flow.waiting_for(tracked.request.model):
            self.kept.forget(tracked.request.model)

    def taken(self, now: float) -> Iterator[tuple[Tracked, Placed | Filtered]]:
        """Whose turn it is, one after the other: with a place, or with what refuses it for good. Each must have been
        dealt with, and have left, before the next is asked for."""
        self._opens_s = None
        for model in [model for model, queue in self.flow.models.items() if len(queue)]:
            yield from self._taken_of(model, now)

    def _taken_of(self, model: ModelId, now: float) -> Iterator[tuple[Tracked, Placed | Filtered]]:
        closed = Closed()
        while True:
            if not closed.lane(Lane.LONG) and self._enough_long(model, now):
                closed.close_lane(Lane.LONG)
                self.kept.note_long(model)
            turn = self.flow.next(model, closed, self._begins_s(model, now), now)
            if turn is None:
                return
            waiting = turn.waiting
            tracked = self._requests[waiting.request.id]
            tracked.aged = turn.aged
            out = self._plan(tracked, now)
            if isinstance(out, Placed) or not passes(out):
                yield tracked, out
                continue
            self.kept.note(waiting, out)
            if Rule.SATURATED in out.rules:
                closed.close_pool(waiting.pool, Lane)
                self._note_opening(out)
            else:
                closed.close_pool(waiting.pool, [waiting.lane])

    def what_for(self, waiting: Waiting, now: float) -> Awaited:
        """What a request that waits would need now if it had the turn. Changes nothing and draws no chance."""
        if waiting.lane is Lane.LONG and self._enough_long(waiting.request.model, now):
            return LONG_ENDS
        out = self._cycle.keeps(self._requests[waiting.request.id], now)
        return ITS_TURN if out is None else awaited(out, self._state.ledger)

    def sent(self, tracked: Tracked, placed: Placed) -> None:
        """It is sent off; the first time, that is service for its tenant."""
        request = tracked.request
        if tracked.lane is Lane.LONG:
            self._long[request.id] = request.model
        if tracked.attempt == 1 and request.copy_to is None:
            self.passing.had_turn(request)
            cached_tokens = placed.decision.chosen.plan.cached_tokens
            self.flow.sent(request, cached_tokens, placed.compute_s, aged=tracked.aged)

    def answered(self, tracked: Tracked, output_tokens: int | None) -> None:
        """It is over; None where nobody knows how long its answer was: then the prediction stands."""
        if tracked.attempt and output_tokens is not None and tracked.request.copy_to is None:
            self.flow.answered(tracked.request, output_tokens)

    def next_s(self) -> float | None:
        """When somebody has waited for too long, or a queue will be short enough."""
        times = [at_s for at_s in (self.flow.next_deadline_s(), self._opens_s) if at_s is not None]
        return min(times, default=None) if len(self.flow) else None

    def _begins_s(self, model: ModelId, now: float) -> float:
        """When a prefill that is sent off now would begin, where the queue is shortest."""
        view = self._state.view(now)
        waits_s = view.wait_prefill_s.take(self._cost.queueing(view, model))
        return now + (float(np.minimum.reduce(waits_s)) if len(waits_s) else 0.0)

    def _plan(self, tracked: Tracked, now: float) -> Placed | Filtered:
        model = tracked.request.model
        self._cost.held_s = self.flow.prefill_s(model)
        if self._cost.held_s:
            self._cost.held_s /= max(1, len(self._cost.queueing(self._state.view(now), model)))
        return self._cycle.plan(tracked, len(self.flow), now)

    def _note_opening(self, out: Filtered) -> None:
        assert out.limit_s is not None
        at_s = opens_s(out.rules[Rule.SATURATED], out.view, out.limit_s, self._state.ledger)
        if at_s is not None:
            self._opens_s = at_s if self._opens_s is None else min(self._opens_s, at_s)

    def _enough_long(self, model: ModelId, now: float) -> bool:
        """As many long prefills of this model are under way as may be."""
        if not self._long:
            return False
        prefills = self._state.ledger.prefills
        self._long = {request_id: of for request_id, of in self._long.items() if request_id in prefills}
        running = sum(of == model for of in self._long.values())
        if not running:
            return False
        prefilling = len(self._cost.queueing(self._state.view(now), model))
        return running >= self._lanes.long_max(prefilling)

    def _prefill_s(self, request: Request) -> float:
        return self._cost.least_prefill_s(request, self._reusable_tokens(request))

    def _reusable_tokens(self, request: Request) -> int:
        """Of its prompt, where most of it is, in whatever tier."""
        match = self._state.index.match(request.block_hashes, len(self._state.fleet))
        blocks = int(match.expected.max(initial=0))
        return min(blocks * request.block_tokens, request.reusable_tokens_max)
