"""The relay: all exchanges under way, by request. It performs the core's effects and gives requests their names."""

import re
import secrets
from collections.abc import Mapping
from itertools import count

import msgspec

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.effects import Answer, Cancel, Dispatch
from vicinal.domain.events import RequestArrived
from vicinal.domain.ids import RequestId
from vicinal.domain.request import Request
from vicinal.engines.splicing import AnyBody, spliced
from vicinal.gateway.closed import ClosedTenants
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.directory import EndpointDirectory
from vicinal.gateway.drift import PromptCounts
from vicinal.gateway.engine_ids import EngineIds
from vicinal.gateway.exchange import Exchange
from vicinal.gateway.forwarding import Forwarding
from vicinal.gateway.limits import Limits
from vicinal.gateway.link import CoreLink, RelayEffect
from vicinal.gateway.parse import ParsedRequest
from vicinal.gateway.responder import Responder
from vicinal.gateway.upstream import UpstreamPool

_OURS = ("priority",)
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")


class Relay:
    """Carries bytes for the core at the other end of `link`."""

    def __init__(
        self,
        directory: EndpointDirectory,
        pool: UpstreamPool,
        counters: GatewayCounters,
        lengths: OutputLengths,
        limits: Limits,
        forwarding: Forwarding | None = None,
    ) -> None:
        self.directory = directory
        self.pool = pool
        self.engine_ids = EngineIds(pool)
        self.counters = counters
        self.lengths = lengths
        self.limits = limits
        self.forwarding = forwarding or Forwarding()
        self.prompt_counts = PromptCounts(counters)
        self.closed = ClosedTenants()
        self._link: CoreLink | None = None
        self._exchanges: dict[RequestId, Exchange] = {}
        self._prefix = secrets.token_hex(6)
        self._numbers = count(1)

    @property
    def link(self) -> CoreLink:
        if self._link is None:
            raise RuntimeError("the relay is not connected to a core")
        return self._link

    @property
    def under_way(self) -> int:
        """Requests that have neither an answer nor been left by their client."""
        return len(self._exchanges)

    def connect(self, link: CoreLink) -> None:
        """Give the relay its core; the two need each other, so one of them comes second."""
        self._link = link

    def name(self, headers: Mapping[bytes, bytes]) -> RequestId:
        """The client's own `X-Request-Id` when it is sane and not in use, else a new one."""
        given = headers.get(b"x-request-id", b"")
        if _SANE_ID.fullmatch(given):
            request_id = RequestId(given.decode())
            if request_id not in self._exchanges:
                return request_id
        return self._new_id()

    def submit(
        self, parsed: ParsedRequest, body: AnyBody, path: bytes, headers: Mapping[bytes, bytes], responder: Responder
    ) -> None:
        """Take a parsed request in and tell the core of it. Engines get its body with the salt of its trust group, and
        without its priority."""
        if parsed.salt is not None or parsed.prioritised:
            salted = {} if parsed.salt is None else {"cache_salt": msgspec.json.encode(parsed.salt)}
            body = spliced(body, salted, _OURS)
        exchange = Exchange(self, parsed, body, path, self.forwarding.lines(headers), responder)
        responder.listener = exchange
        self._exchanges[exchange.id] = exchange
        self.link.post(RequestArrived(parsed.request))

    def rename(self, request_id: RequestId) -> Request | None:
        """Give a request of which no leg is under way a new id; None when it is over."""
        exchange = self._exchanges.pop(request_id, None)
        if exchange is None:
            return None
        renamed = exchange.rename(self._new_id())
        self._exchanges[renamed.id] = exchange
        return renamed

    def perform(self, effect: RelayEffect) -> None:
        """Carry out an effect. For a request that is over it is void: its client left, or it is answered."""
        exchange = self._exchanges.get(effect.request_id)
        if exchange is None:
            return
        match effect:
            case Dispatch():
                exchange.dispatch(effect)
            case Cancel():
                exchange.cancel(effect.attempt)
            case Answer():
                self.closed.heard(exchange.tenant, effect.outcome)
                exchange.answer(effect.outcome)

    def draw_number(self) -> int:
        """63 bits that name one attempt of one request, where the legs of its hand-off meet."""
        return secrets.randbits(63)

    def forget(self, request_id: RequestId) -> None:
        self._exchanges.pop(request_id, None)

    def _new_id(self) -> RequestId:
        return RequestId(f"{self._prefix}-{next(self._numbers):x}")
