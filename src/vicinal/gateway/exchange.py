"""One request between its client and the engines: its body, its answer, the hand-off, and the leg under way.

An exchange performs what the core decides for it and tells the core what came of it. It ends exactly once: answered,
failed with an answer, or left by its client. After that it is forgotten, and whatever still arrives for it is void.

    Dispatch(prefill) -> params kept, PrefillDone        Dispatch(decode | whole) -> bytes to the client, FirstToken …
    engine fails, nothing sent yet -> LegFailed, the core plans again        after the first byte -> LegFailed(started)
"""

from typing import Protocol

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.effects import Dispatch
from vicinal.domain.events import ClientGone, FirstToken, LegFailed, PrefillDone, RequestFinished
from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Outcome
from vicinal.domain.plan import Leg
from vicinal.engines.vllm.requests import (
    EngineError,
    Usage,
    classify_error,
    decode_body,
    parse_prefill,
    prefill_body,
    whole_usage,
)
from vicinal.gateway.as_stream import as_stream
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.directory import EndpointDirectory
from vicinal.gateway.errors import error_body, error_event, outcome_body, outcome_headers
from vicinal.gateway.http_message import EVENT_STREAM, JSON
from vicinal.gateway.legs import HeldLeg, StreamLeg
from vicinal.gateway.limits import Limits
from vicinal.gateway.link import CoreLink
from vicinal.gateway.parse import ParsedRequest
from vicinal.gateway.responder import Responder
from vicinal.gateway.upstream import UpstreamPool

_NO_ANSWER = ("abort", "error")
_NOT_AN_ANSWER = (ValueError, TypeError, AttributeError, RecursionError)
"""What comes of JSON that is no answer: parts that are missing, of other types, or nested too deeply."""
_REASON_CHARS = 500


class Surroundings(Protocol):
    """What exchanges share; the relay owns it."""

    directory: EndpointDirectory
    pool: UpstreamPool
    counters: GatewayCounters
    lengths: OutputLengths
    limits: Limits

    @property
    def link(self) -> CoreLink: ...

    def forget(self, request_id: RequestId) -> None: ...


class Exchange:
    """`path` is the route's, `forwarded` are header lines that go to engines as they came."""

    __slots__ = ("_body", "_forwarded", "_leg", "_over", "_params", "_parsed", "_path", "_responder", "_shared", "id")

    def __init__(
        self,
        shared: Surroundings,
        parsed: ParsedRequest,
        body: bytes,
        path: bytes,
        forwarded: bytes,
        responder: Responder,
    ) -> None:
        self.id = parsed.request.id
        self._shared = shared
        self._parsed = parsed
        self._body = body
        self._path = path
        self._forwarded = forwarded
        self._responder = responder
        self._params: bytes | None = None
        self._leg: HeldLeg | None = None
        self._over = False

    # what the core decides

    def dispatch(self, effect: Dispatch) -> None:
        """Send a leg to its endpoint. Params of a hand-off are used up by the first decode leg after their prefill."""
        self._drop_leg()
        params, self._params = self._params, None
        body = self._body
        if effect.leg is Leg.PREFILL:
            body = prefill_body(body)
        elif effect.leg is Leg.DECODE and params is not None:
            body = decode_body(body, params)
        streamed = self._parsed.request.streamed and effect.leg is not Leg.PREFILL
        kind = StreamLeg if streamed else HeldLeg
        leg = self._leg = kind(self, effect.leg, effect.attempt, self._shared.limits.answer_bytes)
        address = self._shared.directory.find(effect.endpoint)
        if address is None:
            self.leg_failed(leg, f"endpoint {effect.endpoint} has left the fleet")
            return
        head = b"POST %b%b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n%b%bContent-Length: %d\r\n\r\n" % (
            address.prefix.encode(),
            self._path,
            address.authority.encode(),
            _id_line(self.id, effect.attempt),
            self._forwarded,
            len(body),
        )
        leg.call = self._shared.pool.send(address, head + body, leg)

    def cancel(self, attempt: int) -> None:
        """Abandon the leg of `attempt`, if it is the one under way."""
        if self._leg is not None and self._leg.attempt == attempt:
            self._drop_leg()

    def answer(self, outcome: Outcome) -> None:
        """End the request with `outcome`; a stream that has begun ends with an error event and its connection."""
        self._drop_leg()
        self._end()
        self._shared.forget(self.id)
        if self._responder.started:
            self._responder.write(error_event(outcome_body(outcome)))
            self._responder.finish(close=True)
        else:
            extra = outcome_headers(outcome)
            self._respond(outcome.ending.http_status, JSON, outcome_body(outcome), extra)

    # what the client does (ClientListener)

    def client_gone(self) -> None:
        if self._over:
            return
        self._drop_leg()
        self._end()
        self._shared.forget(self.id)
        self._shared.counters.clients_gone += 1
        self._shared.link.post(ClientGone(self.id))

    def pause(self) -> None:
        if self._leg is not None and self._leg.call is not None:
            self._leg.call.pause()

    def resume(self) -> None:
        if self._leg is not None and self._leg.call is not None:
            self._leg.call.resume()

    # what the engine does (LegOwner)

    def stream_opened(self, leg: StreamLeg, content_type: bytes, first: bytes) -> None:
        self._responder.start(200, content_type, _id_line(self.id))
        self._responder.write(first)
        self._shared.link.post(FirstToken(self.id, leg.attempt))

    def stream_bytes(self, chunk: bytes) -> None:
        self._responder.write(chunk)

    def stream_ended(self, leg: StreamLeg) -> None:
        if not leg.tally.complete:
            self.leg_failed(leg, "the engine's stream ended without [DONE]")
            return
        self._end()
        self._responder.finish()
        error = leg.tally.error
        if error is not None:  # the client has read it already; the core has not
            self._shared.forget(self.id)
            self.leg_failed(leg, _reason(error.status, error))
            return
        usage = leg.tally.usage
        tokens = usage.completion_tokens
        if tokens is None:
            tokens = leg.tally.tokens(chat=self._parsed.chat)
        self._finished(leg, tokens, usage.cached_tokens)

    def answered(self, leg: HeldLeg, status: int, content_type: bytes, body: bytes) -> None:
        if not 200 <= status < 300:
            self._refused(leg, classify_error(status, body), status, content_type, body)
        elif leg.leg is Leg.PREFILL:
            self._prefilled(leg, body)
        else:
            self._end()
            self._respond(status, content_type, body)
            usage = whole_usage(body)
            self._finished(leg, usage.completion_tokens, usage.cached_tokens)

    def refused_in_stream(self, leg: HeldLeg, error: EngineError) -> None:
        self._refused(leg, error, error.status, JSON, error_body(error.status, error.message))

    def leg_failed(self, leg: HeldLeg, reason: str) -> None:
        self._leg = None
        self._shared.counters.legs_failed += 1
        started = self._responder.started
        if started:
            self._shared.counters.streams_broken += 1
        self._shared.link.post(LegFailed(self.id, leg.attempt, leg.leg, reason, started=started))

    def _prefilled(self, leg: HeldLeg, body: bytes) -> None:
        try:
            answer = parse_prefill(body)
        except ValueError as error:
            self.leg_failed(leg, f"the prefill leg's answer cannot be read: {error}")
            return
        if answer.finish_reason in _NO_ANSWER:
            self.leg_failed(leg, f"the engine ended the prefill leg with {answer.finish_reason!r}")
            return
        cut_short = answer.finish_reason == "length" and self._parsed.request.max_output_tokens > 1
        if not answer.handed_off and not cut_short:
            self._answer_from_prefill(leg, body, answer.usage)
            return
        # cut by our one token but nothing to pull: the decode leg goes without params and computes the prompt itself
        self._params = answer.kv_transfer_params if answer.handed_off else None
        self._leg = None
        if answer.handed_off:
            self._shared.counters.handoffs += 1
        else:
            self._shared.counters.handoffs_missing += 1
        self._shared.link.post(PrefillDone(self.id, leg.attempt, answer.usage.cached_tokens))

    def _answer_from_prefill(self, leg: HeldLeg, body: bytes, usage: Usage) -> None:
        events = b""
        if self._parsed.request.streamed:
            try:
                events = as_stream(body, chat=self._parsed.chat, include_usage=self._parsed.include_usage)
            except _NOT_AN_ANSWER as error:
                self.leg_failed(leg, f"the prefill leg's answer cannot be told as a stream: {type(error).__name__}")
                return
        self._end()
        self._shared.counters.prefill_answers += 1
        if self._parsed.request.streamed:
            self._responder.start(200, EVENT_STREAM, _id_line(self.id))
            self._responder.write(events)
            self._responder.finish()
        else:
            self._respond(200, JSON, body)
        self._shared.forget(self.id)
        self._shared.link.post(PrefillDone(self.id, leg.attempt, usage.cached_tokens, handed_off=False))
        self._finished(leg, usage.completion_tokens, usage.cached_tokens)

    def _refused(self, leg: HeldLeg, error: EngineError, status: int, content_type: bytes, body: bytes) -> None:
        """An error answer: the client's own fault is passed on at once, anything else is the core's to decide.

        Engines quote a request in what they say is wrong with it. The core's reasons are logged and recorded, and what
        a client sent is not: the client alone reads those words.
        """
        if not error.client_fault:
            self.leg_failed(leg, _reason(status, error))
            return
        self._end()
        if error.status == status:
            self._respond(status, content_type, body)
        else:
            self._respond(error.status, JSON, error_body(error.status, error.message))
        reason = f"the engine finds the request wrong: HTTP {status}"
        self._shared.forget(self.id)
        self._shared.link.post(LegFailed(self.id, leg.attempt, leg.leg, reason, client_fault=True))

    def _finished(self, leg: HeldLeg, output_tokens: int | None, cached_tokens: int | None) -> None:
        self._shared.forget(self.id)
        if output_tokens is not None:
            self._shared.lengths.observe(self._parsed.request.model, output_tokens)
        self._shared.link.post(RequestFinished(self.id, leg.attempt, output_tokens, cached_tokens))

    def _respond(self, status: int, content_type: bytes, body: bytes, extra: bytes = b"") -> None:
        self._responder.respond(status, content_type, body, extra + _id_line(self.id))

    def _drop_leg(self) -> None:
        if self._leg is not None:
            self._leg.drop()
            self._leg = None

    def _end(self) -> None:
        """Nothing is to be done any more. The id is forgotten only after the answer: on its last byte the connection's
        next request may come, and the core, which does not know of the end yet, would refuse a second of that name."""
        self._over = True
        self._leg = None
        self._params = None
        self._body = b""


def _reason(status: int, error: EngineError) -> str:
    """An engine's words on one line of bounded length, as logs need them."""
    return f"HTTP {status}: {' '.join(error.message.split())[:_REASON_CHARS]}"


def _id_line(request_id: RequestId, attempt: int = 1) -> bytes:
    """The header line that names a request, to its client and to engines. Engines get a name per attempt, because
    one that still works on an abandoned attempt would refuse a second request of the same name."""
    suffix = "" if attempt == 1 else f".{attempt}"
    return f"X-Request-Id: {request_id}{suffix}\r\n".encode()
