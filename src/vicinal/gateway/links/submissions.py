"""A relay's requests as its core knows them, and what becomes of them when the core goes away.

A core that starts again knows no request. What is under way here goes on without it: streams flow, answers come. Only
what needs a decision is submitted anew: what has not been decided yet, a leg that failed before the first byte, a
prefill that is done (its decode leg would need a place). It waits for a core, but not for long.

A new core counts attempts from 1, and engines and exchanges have seen those of the old one. So attempts are counted on:
`base` is the last of older submissions, and what concerns an attempt up to it is nobody's business but ours.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import msgspec

from vicinal.domain.effects import Answer, Cancel, Dispatch
from vicinal.domain.events import (
    ClientGone,
    Event,
    FirstToken,
    LegFailed,
    PrefillDone,
    RequestArrived,
    RequestFinished,
)
from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Leg
from vicinal.domain.request import Request
from vicinal.gateway.link import RelayEffect

UpEvent = RequestArrived | PrefillDone | FirstToken | RequestFinished | LegFailed | ClientGone
Send = Callable[[UpEvent, int], None]


@dataclass(slots=True)
class _Open:
    """One request. `number` is its latest submission, `last` the latest attempt that was dispatched, `legs` are those
    under way, `answering` is True when its client has read the first byte."""

    request: Request
    number: int = 0
    base: int = 0
    last: int = 0
    legs: set[Leg] = field(default_factory=set)
    answering: bool = False
    waits_since_s: float | None = None


class Submissions:
    """Implements `CoreLink`. Effects go to `perform`. `rename` gives a request of which no leg is under way another id
    and returns it, None when it is over.

    Without a core, `waiting_max` requests wait up to `wait_s` wall seconds; the next one and the late ones are refused.
    They are told to come back after once to twice that, by `chance` (0 to 1). `counts` has how many waited, were
    submitted again, and were refused.
    """

    def __init__(
        self,
        perform: Callable[[RelayEffect], None],
        rename: Callable[[RequestId], Request | None],
        now: Callable[[], float],
        *,
        wait_s: float,
        waiting_max: int,
        chance: Callable[[], float],
    ) -> None:
        self.counts = Counter(waited=0, submitted_again=0, refused=0)
        self._perform = perform
        self._rename = rename
        self._now = now
        self._wait_s = wait_s
        self._waiting_max = waiting_max
        self._chance = chance
        self._open: dict[RequestId, _Open] = {}
        self._waiting: dict[RequestId, None] = {}
        self._numbers = count(1)
        self._send: Send | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for a core."""
        return len(self._waiting)

    # the core

    def core_came(self, send: Send) -> None:
        """There is a core, which has none of our requests: `send` takes events for it with a submission's number."""
        self._send = send
        for request_id in list(self._waiting):
            self._submit(self._open[request_id])

    def core_went(self) -> None:
        """The core is gone with all that it knew."""
        self._send = None
        for one in list(self._open.values()):
            one.base = one.last
            if one.waits_since_s is None and not one.legs:
                self._decide(one, "the engine failed while answering")

    def heard(self, number: int, effect: RelayEffect) -> None:
        """The core's effect about a submission; void if that is over."""
        one = self._open.get(effect.request_id)
        if one is None or one.number != number:
            return
        match effect:
            case Dispatch():
                one.last = max(one.last, one.base + effect.attempt)
                if effect.leg is not Leg.DECODE:
                    one.legs.clear()
                one.legs.add(effect.leg)
                self._perform(msgspec.structs.replace(effect, attempt=one.base + effect.attempt))
            case Cancel():
                one.legs.clear()
                self._perform(msgspec.structs.replace(effect, attempt=one.base + effect.attempt))
            case Answer():
                self._close(effect.request_id)
                self._perform(effect)

    def taken(self, number: int) -> None:
        """Another relay has a request of that name: this one gets a new name and goes again."""
        one = next((one for one in self._open.values() if one.number == number), None)
        if one is None:
            return
        self._close(one.request.id)
        renamed = self._rename(one.request.id)
        if renamed is not None:
            self.post(RequestArrived(renamed))

    def expire(self) -> None:
        """Refuse what has waited too long; to be called about once a second."""
        due_s = self._now() - self._wait_s
        for request_id in list(self._waiting):
            since_s = self._open[request_id].waits_since_s
            if since_s is not None and since_s <= due_s:
                self._refuse(request_id, f"the scheduler did not come back within {self._wait_s:g} s")

    # the relay

    def post(self, event: Event) -> None:
        match event:
            case RequestArrived(request):
                one = self._open[request.id] = _Open(request)
                self._submit(one)
            case ClientGone(request_id):
                left = self._close(request_id)
                if left is not None and self._send is not None:
                    self._send(event, left.number)
            case PrefillDone() | FirstToken() | RequestFinished() | LegFailed():
                self._progress(event)
            case _:
                raise TypeError(f"a relay has no {type(event).__name__}")

    def _progress(self, event: PrefillDone | FirstToken | RequestFinished | LegFailed) -> None:
        one = self._open.get(event.request_id)
        if one is None or event.attempt != one.last:
            return
        over = False
        match event:
            case FirstToken():
                one.answering = True
            case PrefillDone():
                one.legs.discard(Leg.PREFILL)
            case LegFailed():
                one.legs.discard(event.leg)
                over = event.client_fault
            case RequestFinished():
                over = True
        if over:
            self._close(event.request_id)
        if self._send is not None and event.attempt > one.base:
            self._send(msgspec.structs.replace(event, attempt=event.attempt - one.base), one.number)
        elif not over:
            self._alone(one, event)

    def _alone(self, one: _Open, event: PrefillDone | FirstToken | RequestFinished | LegFailed) -> None:
        """An attempt of a core that is gone came to something."""
        match event:
            case LegFailed(leg=Leg.PREFILL) if one.answering:
                pass  # its KV is there already: the decode leg goes on
            case LegFailed():
                one.answering |= event.started
                self._decide(one, f"the engine failed while answering: {event.reason}")
            case PrefillDone(handed_off=True) if not one.legs:
                self._decide(one, "no decode leg")

    def _decide(self, one: _Open, reason: str) -> None:
        """What the core decided last came to nothing: a request whose client has read none of it goes again."""
        if one.answering:
            self._close(one.request.id)
            self._perform(Answer(one.request.id, Outcome(Ending.STREAM_BROKEN, reason)))
        else:
            self.counts["submitted_again"] += 1
            self._submit(one)

    def _submit(self, one: _Open) -> None:
        """Tell the core of a request, now or when there is one."""
        request_id = one.request.id
        if one.legs:
            one.legs.clear()
            self._perform(Cancel(request_id, one.last))
        one.number = next(self._numbers)
        one.base = one.last
        if self._send is not None:
            one.waits_since_s = None
            self._waiting.pop(request_id, None)
            self._send(RequestArrived(one.request), one.number)
        elif len(self._waiting) >= self._waiting_max:
            self._refuse(request_id, f"the scheduler is away, and {len(self._waiting)} requests wait for it already")
        else:
            self.counts["waited"] += 1
            one.waits_since_s = self._now()
            self._waiting[request_id] = None

    def _refuse(self, request_id: RequestId, reason: str) -> None:
        self.counts["refused"] += 1
        self._close(request_id)
        again_s = self._wait_s * (1.0 + self._chance())  # those who are refused together come back one by one
        self._perform(Answer(request_id, Outcome(Ending.NO_CORE, reason, again_s)))

    def _close(self, request_id: RequestId) -> _Open | None:
        self._waiting.pop(request_id, None)
        return self._open.pop(request_id, None)
