"""The scheduler: `handle(event, now) -> effects`, and the time of its next alarm.

Events change what is believed (cluster/state.py) or move a request along its table (scheduler/states.py); each move
opens or closes reservations. Effects, once performed, come back as events. An event of a request or an attempt that is
over changes nothing.
"""

from collections.abc import Sequence
from typing import assert_never

from vicinal.cluster.state import ClusterState
from vicinal.contracts.flow import Waiting
from vicinal.contracts.policy import Policy
from vicinal.cost.model import CostModel
from vicinal.domain.chance import Stream
from vicinal.domain.effects import Answer, Cancel, Dispatch, Effect, Record, RecordObservation, Warn
from vicinal.domain.events import (
    AlarmRang,
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    ClientGone,
    EndpointReported,
    EndpointUnreachable,
    Event,
    FirstToken,
    LegFailed,
    Measured,
    PrefillDone,
    RelayLost,
    RequestArrived,
    RequestFinished,
    TopologyChanged,
)
from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Leg
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import Request
from vicinal.scheduler.arriving import Arrivals
from vicinal.scheduler.blame import Blame
from vicinal.scheduler.copying import copy_refusal
from vicinal.scheduler.cycle import Cycle, Placed
from vicinal.scheduler.doubts import Doubts
from vicinal.scheduler.fleet_changes import FleetChanges
from vicinal.scheduler.observing import observation, term
from vicinal.scheduler.overload import Overload
from vicinal.scheduler.refusal import no_more_attempts, passes, refusal
from vicinal.scheduler.reserving import Reservations
from vicinal.scheduler.selfcheck import SelfCheck
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.states import Move
from vicinal.scheduler.tenancy import Tenancy
from vicinal.scheduler.tracked import Tracked
from vicinal.scheduler.turns import Turns
from vicinal.scheduler.unseen import UnseenTokens


class Scheduler:
    """One scheduler of one model's fleet. Everything it needs is handed in; two of them share nothing."""

    def __init__(
        self,
        state: ClusterState,
        cost: CostModel,
        policy: Policy,
        chance: Stream,
        settings: SchedulerSettings,
    ) -> None:
        self.state = state
        self.cost = cost
        self.policy = policy
        self.settings = settings
        self.requests: dict[RequestId, Tracked] = {}
        self.unseen = UnseenTokens()
        self.doubts = Doubts()
        self.blame = Blame(state, cost, settings.overload.circuits)
        self.overload = Overload(state, cost, settings.overload)
        self.selfcheck = SelfCheck(state)
        self.tenancy = Tenancy(settings.tenants, state)
        self.reservations = Reservations(state, cost, self.tenancy)
        self._chance = chance
        self._fleet_changes = FleetChanges(
            state, cost, self.reservations, self.selfcheck, self.tenancy, self.blame, self.overload
        )
        self.cycle = Cycle(state, cost, policy, chance, settings, self.tenancy.reserves, self.blame, self.overload)
        self.turns = Turns(state, cost, self.cycle, settings, self.requests)
        self.arrivals = Arrivals(self.tenancy, self.overload, self.turns, settings, self._spread_s)

    def handle(self, event: Event, now: float) -> Sequence[Effect]:
        """Take in one event at time `now`, in seconds on the driver's clock, which never goes back."""
        effects = [*self.overload.look(self.turns.flow, now), *self._apply(event, now)]
        if len(self.turns.flow) and not isinstance(event, BlocksStored | BlocksRemoved | BlocksCleared):
            effects += self._take_turns(now)
        return effects

    def _apply(self, event: Event, now: float) -> list[Effect]:
        match event:  # the most frequent ones first
            case EndpointReported():
                return self._reported(event.report, now)
            case BlocksStored() | BlocksRemoved() | BlocksCleared():
                return [*self.state.apply_blocks(event, now)]
            case RequestArrived():
                return self._arrived(event.request, now)
            case PrefillDone() | FirstToken() | RequestFinished() | LegFailed():
                tracked = self.requests.get(event.request_id)
                if tracked is None or tracked.leg is None or tracked.attempt != event.attempt:
                    return []
                return self._progress(tracked, event, now)
            case ClientGone(request_id):
                return self._client_gone(request_id, now)
            case RelayLost(request_id):
                return self._orphaned(request_id, now)
            case EndpointUnreachable(endpoint, reason):
                words = f"{endpoint} does not answer ({reason}); it takes no new work until it reports again"
                return [Warn("unreachable", endpoint, words)] if self.state.lose(endpoint, now) else []
            case TopologyChanged(endpoints):
                self._fleet_changes.take(endpoints, self.requests, now)
                return []
            case Measured():
                return [*self.overload.measured(event, now)]
            case AlarmRang():
                self.blame.expire(now)
                for request_id in self.unseen.take_due(now):
                    self.turns.early.began(self.requests[request_id], now)
                    self.reservations.begin_decode(self.requests[request_id], now)
                return self._refuse_expired(now)
            case _:
                assert_never(event)

    def next_alarm(self) -> float | None:
        """When `AlarmRang` is due: a held request's patience ends, or a queue that it waits for is short enough; a
        first token that nobody sees is expected; or whoever failed may be tried again."""
        times = (self.turns.next_s(), self.unseen.next_s(), self.blame.next_s())
        return min([at_s for at_s in times if at_s is not None], default=None)

    def _reported(self, report: EndpointReport, now: float) -> list[Effect]:
        slot = self.state.slot(report.endpoint)
        if slot is None:
            return []
        self.state.apply_report(report)
        doubts = self.doubts.raised_by(self.state.fleet.endpoints[slot], report)
        return [*doubts, *self.selfcheck.reported(slot, report, now)]

    def _progress(
        self, tracked: Tracked, event: PrefillDone | FirstToken | RequestFinished | LegFailed, now: float
    ) -> list[Effect]:
        match event:
            case PrefillDone():
                return self._prefill_done(tracked, event, now)
            case FirstToken():
                return self._first_token(tracked, now)
            case RequestFinished():
                return self._finished(tracked, event, now)
            case LegFailed():
                return self._leg_failed(tracked, event, now)
            case _:
                assert_never(event)

    def _arrived(self, request: Request, now: float) -> list[Effect]:
        if request.id in self.requests:
            return [Answer(request.id, Outcome(Ending.REJECTED, f"request id {request.id} is in use"))]
        tracked = Tracked(request, arrived_s=now)
        self.requests[request.id] = tracked
        if (outcome := self.arrivals.refused(tracked, now)) is not None:
            return self._end(tracked, Move.SHED, outcome, None, now)
        if self.turns.flow.waiting_for(request.model):
            return self._hold(tracked, now)
        return self._place(tracked, now)

    def _place(self, tracked: Tracked, now: float) -> list[Effect]:
        """Plan and send off; or hold, or refuse."""
        placed = self.turns.at_once(tracked, now)
        if isinstance(placed, Placed):
            return self._send(tracked, placed, now)
        if placed is not None and tracked.request.copy_to is not None:
            return self._end(tracked, Move.SHED, copy_refusal(placed), None, now)
        if placed is None or passes(placed):
            return self._hold(tracked, now)
        return self._end(tracked, Move.SHED, refusal(placed, self._retry_after_s()), None, now)

    def _send(self, tracked: Tracked, placed: Placed, now: float) -> list[Effect]:
        decision = placed.decision
        plan = decision.chosen.plan
        tracked.move(Move.PLAN)
        tracked.begin(decision, placed.decode_bound, placed.concurrent, now)
        self.turns.sent(tracked, placed)
        self.selfcheck.promise(tracked, placed.prefill_slot, placed.ready_blocks)
        self.reservations.plan(tracked, placed, now)
        self.tenancy.quotas.dispatched(tracked.id, decision.leg, plan, now)
        tracked.move(Move.DISPATCH)
        self.blame.sent(tracked, plan.prefill, *([plan.decode] if placed.concurrent else []))
        sent: list[Effect] = [Record(decision), Dispatch(tracked.id, tracked.attempt, decision.leg, plan.prefill, plan)]
        if placed.concurrent:
            self.selfcheck.pull_began(tracked, plan)
            self.tenancy.quotas.dispatched(tracked.id, Leg.DECODE, plan, now)
            sent.append(Dispatch(tracked.id, tracked.attempt, Leg.DECODE, plan.decode, plan))
        if tracked.leg is not Leg.PREFILL:
            self._expect_unseen(tracked, now)
        return sent

    def _prefill_done(self, tracked: Tracked, event: PrefillDone, now: float) -> list[Effect]:
        if tracked.prefilling:
            return self._other_leg_done(tracked, event, now)
        if tracked.leg is not Leg.PREFILL or tracked.first_token_s is not None:
            return []
        tracked.cached_tokens = event.cached_tokens
        tracked.prefill_done_s = now
        self.reservations.prefill_done(tracked, now)
        self.overload.prefilled(tracked, now)
        self.blame.worked(tracked, Leg.PREFILL)
        warnings = self.selfcheck.compare(tracked)
        if not event.handed_off and tracked.request.copy_to is not None:
            outcome = Outcome(Ending.ENGINE_FAILED, "the holder handed nothing over")
            return [*warnings, *self._end(tracked, Move.FAIL, outcome, None, now)]
        if not event.handed_off:
            tracked.move(Move.FIRST_TOKEN)  # the token that the prefill made is the whole answer
            tracked.first_token_s = now
            return [*warnings]
        placed = self.cycle.plan_decode(tracked, len(self.turns.flow), now)
        if not isinstance(placed, Placed):
            reason = "the prefill is done, but no endpoint can take its KV"
            return [*warnings, Cancel(tracked.id, tracked.attempt), *self._try_again(tracked, reason, now)]
        plan = placed.decision.chosen.plan
        tracked.move(Move.HAND_OFF)
        tracked.plan, tracked.decision, tracked.leg = plan, placed.decision, Leg.DECODE
        self.reservations.hand_off(tracked, placed, now)
        self.tenancy.quotas.dispatched(tracked.id, Leg.DECODE, plan, now)
        self.blame.sent(tracked, plan.decode)
        self.selfcheck.pull_began(tracked, plan)
        self._expect_unseen(tracked, now)
        dispatch = Dispatch(tracked.id, tracked.attempt, Leg.DECODE, plan.decode, plan)
        return [*warnings, Record(placed.decision), dispatch]

    def _other_leg_done(self, tracked: Tracked, event: PrefillDone, now: float) -> list[Effect]:
        """The prefill leg of a concurrent hand-off answered, before or after the first token of its decode leg."""
        tracked.cached_tokens = event.cached_tokens
        tracked.prefill_done_s = now
        self.reservations.prefill_leg_over(tracked, now)
        if tracked.first_token_s is None:
            tracked.move(Move.HAND_OFF if event.handed_off else Move.FIRST_TOKEN)
            if not event.handed_off:
                tracked.first_token_s = now
        return [*self.selfcheck.compare(tracked)]

    def _expect_unseen(self, tracked: Tracked, now: float) -> None:
        """The leg under way brings the first token; when nobody will see it, wait for the time it is expected."""
        if not tracked.request.streamed:
            self.unseen.expect(tracked.id, now + (term(tracked.decision, "ttft") or 0.0))

    def _first_token(self, tracked: Tracked, now: float) -> list[Effect]:
        if tracked.first_token_s is not None or tracked.leg is Leg.PREFILL:
            return []
        tracked.move(Move.FIRST_TOKEN)
        tracked.first_token_s = now
        self.unseen.forget(tracked.id)
        self.selfcheck.looked_up(tracked)
        self.selfcheck.pull_ended(tracked)
        self.turns.early.began(tracked, now)
        warning = self.reservations.first_token(tracked, now)
        self.blame.worked(tracked, Leg.DECODE)
        self.overload.first_token(tracked, now)
        return [warning] if warning else []

    def _finished(self, tracked: Tracked, event: RequestFinished, now: float) -> list[Effect]:
        warnings: list[Warn] = []
        if event.cached_tokens is not None and not tracked.concurrent:
            tracked.cached_tokens = event.cached_tokens
        if tracked.leg is Leg.WHOLE:
            warnings = self.selfcheck.compare(tracked, usage_asked=event.usage_asked)
        self.selfcheck.over(tracked, now)
        if tracked.first_token_s is None:
            self.blame.worked(tracked, Leg.DECODE)
            self.reservations.computed(tracked, now)
        return [*warnings, *self._end(tracked, Move.FINISH, Outcome(Ending.DONE), event.output_tokens, now)]

    def _leg_failed(self, tracked: Tracked, event: LegFailed, now: float) -> list[Effect]:
        of_other = tracked.prefilling and event.leg is Leg.PREFILL
        plan = tracked.plan
        if plan is None or (event.leg is not tracked.leg and not of_other):
            return []
        endpoint = plan.decode if event.leg is Leg.DECODE else plan.prefill
        other = [Cancel(tracked.id, tracked.attempt)] if tracked.concurrent else []
        if event.client_fault:
            return [*other, *self._end(tracked, Move.FAIL, Outcome(Ending.REJECTED, event.reason), None, now)]
        lost = self.blame.leg_failed(tracked, plan, endpoint, event, now)
        self.overload.leg_failed(tracked, event.leg, now)
        if of_other and tracked.first_token_s is not None:
            tracked.prefill_done_s = now  # its KV is there already: the decode leg goes on
            return [*lost]
        if event.started or tracked.first_token_s is not None:
            outcome = Outcome(Ending.STREAM_BROKEN, f"the engine failed while answering: {event.reason}")
            return [*lost, *other, *self._end(tracked, Move.FAIL, outcome, None, now)]
        return [*lost, *other, *self._try_again(tracked, event.reason, now)]

    def _try_again(self, tracked: Tracked, reason: str, now: float) -> list[Effect]:
        """The attempt came to nothing and the client has seen none of it: plan again, unless it was the last."""
        if (detail := self.overload.no_retry(tracked, self.settings.attempts_max, now)) is not None:
            outcome = no_more_attempts(tracked, reason, detail, self._retry_after_s())
            return self._end(tracked, Move.FAIL, outcome, None, now)
        self.blame.over(tracked.id)
        self.unseen.forget(tracked.id)
        self.selfcheck.pull_ended(tracked)
        self.reservations.release(tracked, now)
        tracked.move(Move.REPLAN)
        tracked.plan = tracked.leg = None
        return self._place(tracked, now)

    def _client_gone(self, request_id: RequestId, now: float) -> list[Effect]:
        tracked = self.requests.get(request_id)
        if tracked is None:
            return []
        attempt = tracked.attempt
        ended = self._end(tracked, Move.CANCEL, Outcome(Ending.CANCELLED, "the client went away"), None, now)
        return [Cancel(request_id, attempt), *ended]

    def _orphaned(self, request_id: RequestId, now: float) -> list[Effect]:
        tracked = self.requests.get(request_id)
        if tracked is None:
            return []
        return self._end(tracked, Move.ORPHAN, Outcome(Ending.ORPHANED, "its relay is gone"), None, now)

    def _hold(self, tracked: Tracked, now: float) -> list[Effect]:
        tracked.move(Move.HOLD)
        tracked.held_since_s = now
        displaced = self.turns.wait(tracked, now)
        if displaced is None:
            return []
        reason = f"{len(self.turns.flow) - 1} requests are held already"
        return self._shed(displaced, Outcome(Ending.QUEUE_FULL, reason, self._retry_after_s()), now)

    def _take_turns(self, now: float) -> list[Effect]:
        """Something may have made room: place those whose turn it is until somebody has to go on waiting."""
        effects: list[Effect] = []
        for tracked, placed in self.turns.taken(now):
            if isinstance(placed, Placed):
                self._unhold(tracked, now)
                effects += self._send(tracked, placed, now)
            else:
                effects += self._end(tracked, Move.SHED, refusal(placed, self._retry_after_s()), None, now)
        return effects

    def _refuse_expired(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for waiting in self.turns.flow.expired(now):
            held_s = self.requests[waiting.request.id].held_until(now)
            reason = f"no endpoint that answers had room within {held_s:.1f} s"
            self.overload.came_too_late(waiting.request, now)
            effects += self._shed(waiting, Outcome(Ending.WAITED_TOO_LONG, reason, self._retry_after_s()), now)
        return effects

    def _shed(self, waiting: Waiting, outcome: Outcome, now: float) -> list[Effect]:
        return self._end(self.requests[waiting.request.id], Move.SHED, outcome, None, now)

    def _unhold(self, tracked: Tracked, now: float) -> None:
        self.turns.leave(tracked)
        tracked.held_s = tracked.held_until(now)
        tracked.held_since_s = None

    def _end(
        self, tracked: Tracked, move: Move, outcome: Outcome, output_tokens: int | None, now: float
    ) -> list[Effect]:
        """The request is over: give everything back, and say how it ended."""
        self._unhold(tracked, now)
        tracked.move(move)
        self.unseen.forget(tracked.id)
        self.selfcheck.pull_ended(tracked)
        self.turns.answered(tracked, output_tokens)
        self.turns.early.ended(tracked, now)
        self.reservations.release(tracked, now)
        self.tenancy.quotas.ended(tracked.id, output_tokens, now)
        self.blame.over(tracked.id)
        del self.requests[tracked.id]
        effects: list[Effect] = []
        if outcome.ending.answered_by_core:
            effects.append(Answer(tracked.id, outcome))
        effects.append(RecordObservation(observation(tracked, outcome, output_tokens, now)))
        return effects

    def _retry_after_s(self) -> float:
        """Spread out, so that those refused together do not come back together."""
        return self.settings.retry_after_s + self._spread_s()

    def _spread_s(self) -> float:
        return self.settings.retry_spread_s * self._chance.random()
