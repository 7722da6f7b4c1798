"""A scheduler under a clock that the test moves. Every event is followed by a check of all invariants."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tests.builders import racks, report, scheduler
from vicinal.domain.effects import Answer, Cancel, Dispatch, Effect, Record, RecordObservation, Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import (
    AlarmRang,
    BlocksStored,
    ClientGone,
    EndpointReported,
    EndpointUnreachable,
    Event,
    FirstToken,
    LegFailed,
    PrefillDone,
    RequestArrived,
    RequestFinished,
    TopologyChanged,
)
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.plan import Leg
from vicinal.domain.request import Request
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.validate import validate

One = TypeVar("One", Answer, Cancel, Dispatch, Record, RecordObservation, Warn)


class Play:
    """Each method feeds one event, at `now`, and returns its effects. A request's events carry its current attempt.

    Without `local`, prefill and decode are always split; with it an idle fleet prefers to serve on one endpoint.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint] | None = None,
        local: bool = False,
        settings: SchedulerSettings | None = None,
        **how: Any,
    ) -> None:
        settings = replace(settings or SchedulerSettings(), local_prefill=local)
        self.scheduler = scheduler(racks() if endpoints is None else endpoints, settings=settings, **how)
        self.now = 0.0

    def feed(self, event: Event, after_s: float = 0.0) -> list[Effect]:
        self.now += after_s
        effects = list(self.scheduler.handle(event, self.now))
        validate(self.scheduler)
        return effects

    def attempt(self, request_id: str) -> int:
        return self.scheduler.requests[RequestId(request_id)].attempt

    def arrive(self, request: Request, after_s: float = 0.0) -> list[Effect]:
        return self.feed(RequestArrived(request), after_s)

    def prefilled(
        self, name: str, after_s: float = 0.0, handed_off: bool = True, cached: int | None = 0
    ) -> list[Effect]:
        return self.feed(PrefillDone(RequestId(name), self.attempt(name), cached, handed_off), after_s)

    def first_token(self, name: str, after_s: float = 0.0) -> list[Effect]:
        return self.feed(FirstToken(RequestId(name), self.attempt(name)), after_s)

    def finished(self, name: str, after_s: float = 0.0, tokens: int | None = 100) -> list[Effect]:
        return self.feed(RequestFinished(RequestId(name), self.attempt(name), tokens), after_s)

    def failed(self, name: str, leg: Leg, after_s: float = 0.0, **how: bool) -> list[Effect]:
        return self.feed(LegFailed(RequestId(name), self.attempt(name), leg, "connection reset", **how), after_s)

    def gone(self, name: str, after_s: float = 0.0) -> list[Effect]:
        return self.feed(ClientGone(RequestId(name)), after_s)

    def reported(self, endpoint: str, after_s: float = 0.0, **figures: float) -> list[Effect]:
        self.now += after_s
        return self.feed(EndpointReported(report(EndpointId(endpoint), self.now, **figures)))

    def unreachable(self, endpoint: str, after_s: float = 0.0) -> list[Effect]:
        return self.feed(EndpointUnreachable(EndpointId(endpoint), "timed out"), after_s)

    def fleet(self, endpoints: Sequence[Endpoint], after_s: float = 0.0) -> list[Effect]:
        return self.feed(TopologyChanged(tuple(endpoints)), after_s)

    def alarm(self) -> list[Effect]:
        """The alarm rings when it is due, not a moment later."""
        at = self.scheduler.next_alarm()
        assert at is not None
        self.now = at
        return self.feed(AlarmRang())

    def stored(self, endpoint: str, prompt: np.ndarray, after_s: float = 0.0) -> list[Effect]:
        """The engine says that it holds all full blocks of a prompt."""
        blocks = len(prompt) // 16
        names = tuple(range(1000, 1000 + blocks))
        ids = prompt[: blocks * 16].astype("<u4").tobytes()
        return self.feed(BlocksStored(EndpointId(endpoint), 0, 0, None, names, ids, 16), after_s)

    def run(self, request: Request, first_token_after_s: float = 0.2) -> list[Effect]:
        """A request from arrival to its end."""
        effects = self.arrive(request, 0.0)
        if only(Dispatch, effects).leg is Leg.PREFILL:
            effects += self.prefilled(request.id, 0.5)
        effects += self.first_token(request.id, first_token_after_s)
        return effects + self.finished(request.id, 1.0)


def every(kind: type[One], effects: Sequence[Effect]) -> list[One]:
    return [effect for effect in effects if isinstance(effect, kind)]


def only(kind: type[One], effects: Sequence[Effect]) -> One:
    """The one effect of that kind; there must be exactly one."""
    (found,) = every(kind, effects)
    return found


def kinds(effects: Sequence[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def idle(play: Play) -> bool:
    """Nothing is tracked, held, reserved, or expected anywhere."""
    scheduler = play.scheduler
    ledger = scheduler.state.ledger
    owned = (ledger.prefills, ledger.pencilled, ledger.decodes, ledger.blocks, ledger.transfers)
    sums = (
        ledger.backlog_s,
        ledger.prefill_count,
        ledger.prefill_tokens,
        ledger.decode_count,
        ledger.decode_context_tokens,
        ledger.pencilled_count,
        ledger.pencilled_context_tokens,
        ledger.decode_tokens,
        ledger.blocks_reserved,
        ledger.link_flows,
    )
    index = scheduler.state.index
    expected = any(run.filling for run in index._tree.runs())
    quiet = not any(owned) and all(np.allclose(figures, 0.0, atol=1e-6) for figures in sums)
    return quiet and not scheduler.requests and not len(scheduler.turns.flow) and not expected
