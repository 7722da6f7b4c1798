"""The legs of a request on their way: made, sent, joined and dropped.

A leg that is dispatched is a new beginning, and what went before it is dropped, except a decode leg: it joins the
prefill leg of its attempt and uses up what that left, or, where the hand-off is concurrent, was made with.
"""

from typing import Protocol

from vicinal.domain.effects import Dispatch
from vicinal.domain.ids import RequestId
from vicinal.domain.plan import Leg
from vicinal.engines.errors import ErrorRules
from vicinal.engines.handover import HandOver, PrefillLeg, Rendezvous
from vicinal.engines.long_body import LongBody
from vicinal.engines.splicing import AnyBody, spliced
from vicinal.gateway.directory import EndpointDirectory, Target
from vicinal.gateway.engine_ids import EngineIds
from vicinal.gateway.legs import HeldLeg, LegOwner, StreamLeg
from vicinal.gateway.limits import Limits
from vicinal.gateway.upstream import UpstreamPool

_NO_RULES = ErrorRules(())


class Roads(Protocol):
    """What sending needs; the relay owns it."""

    directory: EndpointDirectory
    pool: UpstreamPool
    engine_ids: EngineIds
    limits: Limits

    def draw_number(self) -> int: ...


class AttemptLegs:
    """`path` is the route's, `forwarded` are header lines that go to engines as they came."""

    __slots__ = ("_body", "_forwarded", "_hand_over", "_id", "_legs", "_met", "_path", "_roads", "_waits")

    def __init__(self, roads: Roads, request_id: RequestId, body: AnyBody, path: bytes, forwarded: bytes) -> None:
        self._roads = roads
        self._id = request_id
        self._body = body
        self._path = path
        self._forwarded = forwarded
        self._legs: dict[Leg, HeldLeg] = {}
        self._hand_over: HandOver | None = None
        self._met: Target | None = None
        self._waits: tuple[HeldLeg, Target] | None = None

    def rename(self, request_id: RequestId) -> None:
        """Engines will know the request by this id."""
        self._id = request_id

    def dispatch(self, effect: Dispatch, streamed: bool, owner: LegOwner) -> None:
        """Send a leg to its endpoint; the client wants its answer `streamed`. `owner` hears what comes of it."""
        if not self._joins(effect):
            self.drop()
        target = self._roads.directory.find(effect.endpoint)
        kind = StreamLeg if streamed and effect.leg is not Leg.PREFILL else HeldLeg
        rules = _NO_RULES if target is None else target.dialect.errors
        leg = kind(owner, effect.leg, effect.attempt, self._roads.limits.answer_bytes, rules)
        self._legs[effect.leg] = leg
        if target is None:
            leg.failed(f"endpoint {effect.endpoint} has left the fleet")
        elif effect.leg is Leg.PREFILL:
            self._prefill(leg, target)
        elif effect.leg is Leg.DECODE:
            self._decode(leg, target)
        elif target.dialect.can.cache_salt:
            self._send(leg, target, self._body)
        else:  # a server that does not know the field may refuse it
            self._send(leg, target, spliced(self._body, {}, ("cache_salt",)))

    def cancel(self, attempt: int) -> None:
        """Abandon the legs of `attempt`, if they are the ones under way."""
        if any(leg.attempt == attempt for leg in self._legs.values()):
            self.drop()

    def drop(self) -> None:
        """Nothing goes on, and what a prefill leg left for its decode leg is void."""
        legs, self._legs = self._legs, {}
        self._hand_over = self._waits = self._met = None
        for leg in legs.values():
            leg.drop()

    def end(self) -> None:
        """Nothing will be sent any more."""
        self.drop()
        self.forget_body()

    def forget_body(self) -> None:
        """No further leg will be made: the body need not be kept."""
        self._body = b""

    def prefilled(self, leg: HeldLeg, hand_over: HandOver | None) -> None:
        """The prefill leg is over. Where the decode leg did not leave with it, it will use what was left for it."""
        del self._legs[leg.leg]
        if leg.prefill is None or not leg.prefill.concurrent:
            self._hand_over = hand_over
        leg.prefill = None

    def failed(self, leg: HeldLeg) -> None:
        """One leg is over; the other one of its attempt is not touched."""
        self._legs.pop(leg.leg, None)
        leg.prefill = None
        if self._met is not None and leg.leg is not Leg.WHOLE:
            self._roads.engine_ids.forget(self._met)

    def pause(self) -> None:
        """Read no more of what the client reads."""
        for leg in self._legs.values():
            if leg.leg is not Leg.PREFILL and leg.call is not None:
                leg.call.pause()

    def resume(self) -> None:
        for leg in self._legs.values():
            if leg.leg is not Leg.PREFILL and leg.call is not None:
                leg.call.resume()

    def _joins(self, effect: Dispatch) -> bool:
        """The decode leg belongs to what is under way, or was done, for the same attempt."""
        if effect.leg is not Leg.DECODE:
            return False
        prefill = self._legs.get(Leg.PREFILL)
        if prefill is not None:
            return prefill.attempt == effect.attempt
        return self._hand_over is not None and self._hand_over.fits(effect.attempt)

    def _prefill(self, leg: HeldLeg, target: Target) -> None:
        way, names = target.way, self._roads.engine_ids
        if way is None:
            leg.failed("the endpoint hands nothing off")
            return
        self._met = target
        if not way.asks_engine_id:
            self._meet(leg, target, "")
        elif (name := names.find(target)) is not None:
            self._meet(leg, target, name)
        else:
            leg.call = names.ask(target, lambda told: self._meet(leg, target, told), leg.failed)

    def _meet(self, leg: HeldLeg, target: Target, engine_id: str) -> None:
        """Make the prefill leg, and send it; a decode leg that was dispatched before that was possible goes too."""
        assert target.way is not None
        at, number = target.bootstrap, self._roads.draw_number()
        leg.prefill = PrefillLeg(
            target.way, self._body, leg.attempt, Rendezvous(at.host, at.port, number, engine_id, target.rank)
        )
        self._hand_over = leg.prefill.hand_over
        self._send(leg, target, leg.prefill.body)
        waits, self._waits = self._waits, None
        if waits is not None:
            self._decode(*waits)

    def _decode(self, leg: HeldLeg, target: Target) -> None:
        """With the hand-over where there is one; without, the engine computes the prompt itself."""
        prefill = self._legs.get(Leg.PREFILL)
        if prefill is not None and prefill.prefill is None:
            self._waits = (leg, target)
            return
        leg.met = prefill is not None
        hand_over, self._hand_over = self._hand_over, None
        self._send(leg, target, self._body if hand_over is None else hand_over.take(leg.attempt))

    def _send(self, leg: HeldLeg, target: Target, body: AnyBody) -> None:
        address = target.address
        head = (
            b"POST %b%b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n%b%b%bContent-Length: %d\r\n\r\n"
            % (
                address.prefix.encode(),
                self._path,
                address.authority.encode(),
                id_line(self._id, leg.attempt),
                self._forwarded,
                target.header,
                body.pieces.size_bytes if isinstance(body, LongBody) else len(body),
            )
        )
        message = (head, *body.pieces.parts) if isinstance(body, LongBody) else head + body
        leg.call = self._roads.pool.send(address, message, leg)


def id_line(request_id: RequestId, attempt: int = 1) -> bytes:
    """The header line that names a request, to its client and to engines. Engines get a name per attempt, because
    one that still works on an abandoned attempt would refuse a second request of the same name."""
    suffix = "" if attempt == 1 else f".{attempt}"
    return f"X-Request-Id: {request_id}{suffix}\r\n".encode()
