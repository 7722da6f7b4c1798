"""One request between its client and the engines: its body, its answer, the hand-off, and the leg under way.

An exchange performs what the core decides for it and tells the core what came of it. It ends exactly once: answered,
failed with an answer, or left by its client. After that it is forgotten, and whatever still arrives for it is void.

    Dispatch(prefill) -> hand-over kept, PrefillDone     Dispatch(decode | whole) -> bytes to the client, FirstToken …
    engine fails, nothing sent yet -> LegFailed, the core plans again        after the first byte -> LegFailed(started)

Where the hand-off is concurrent the core dispatches both legs at once: the prefill leg is made with its hand-over, the
decode leg uses that, and the client reads the decode leg while the prefill leg may still be under way.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.effects import Dispatch
from vicinal.domain.events import ClientGone, FirstToken, LegFailed, PrefillDone, RequestFinished
from vicinal.domain.ids import RequestId, TenantId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Leg
from vicinal.domain.request import Request
from vicinal.engines.answers import Usage, is_object, usage_if_whole
from vicinal.engines.errors import EngineError
from vicinal.engines.splicing import AnyBody
from vicinal.gateway.as_stream import as_stream
from vicinal.gateway.attempt import AttemptLegs, Roads, id_line
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.drift import PromptCounts
from vicinal.gateway.errors import error_body, error_event, outcome_body, outcome_headers, reason_line
from vicinal.gateway.http_message import EVENT_STREAM, JSON
from vicinal.gateway.legs import HeldLeg, StreamLeg
from vicinal.gateway.link import CoreLink
from vicinal.gateway.parse import ParsedRequest
from vicinal.gateway.responder import Responder

_NO_ANSWER = ("abort", "error")
_NOT_AN_ANSWER = (ValueError, TypeError, AttributeError, RecursionError)
"""What comes of JSON that is no answer: parts that are missing, of other types, or nested too deeply."""
_WORDS_CHARS = 500
_CUT = "the engine's answer is no JSON object, or a part of one"


class Surroundings(Roads, Protocol):
    """What exchanges share; the relay owns it."""

    counters: GatewayCounters
    lengths: OutputLengths
    prompt_counts: PromptCounts

    @property
    def link(self) -> CoreLink: ...

    def forget(self, request_id: RequestId) -> None: ...


class Exchange:
    """`path` is the route's, `forwarded` are header lines that go to engines as they came."""

    __slots__ = ("_legs", "_over", "_parsed", "_responder", "_shared", "_words", "id")

    def __init__(
        self,
        shared: Surroundings,
        parsed: ParsedRequest,
        body: AnyBody,
        path: bytes,
        forwarded: bytes,
        responder: Responder,
    ) -> None:
        self.id = parsed.request.id
        self._shared = shared
        self._parsed = parsed
        self._responder = responder
        self._legs = AttemptLegs(shared, self.id, body, path, forwarded)
        self._words = ""
        self._over = False

    @property
    def tenant(self) -> TenantId:
        return self._parsed.request.tenant

    # what the core decides

    def dispatch(self, effect: Dispatch) -> None:
        """Send a leg to its endpoint."""
        self._legs.dispatch(effect, self._parsed.request.streamed, self)

    def rename(self, request_id: RequestId) -> Request:
        """The request under another id, while no leg is under way."""
        request = replace(self._parsed.request, id=request_id)
        self._parsed = replace(self._parsed, request=request)
        self._legs.rename(request_id)
        self.id = request_id
        return request

    def cancel(self, attempt: int) -> None:
        """Abandon the legs of `attempt`, if they are the ones under way."""
        self._legs.cancel(attempt)

    def answer(self, outcome: Outcome) -> None:
        """End the request with `outcome`; a stream that has begun ends with an error event and its connection."""
        self._end()
        self._shared.forget(self.id)
        if self._responder.started:
            self._responder.write(error_event(outcome_body(outcome)))
            self._responder.finish(close=True)
        else:
            extra = outcome_headers(outcome)
            self._respond(outcome.ending.http_status, JSON, outcome_body(outcome, self._words), extra)

    # what the client does (ClientListener)

    def client_gone(self) -> None:
        if self._over:
            return
        self._end()
        self._shared.forget(self.id)
        self._shared.counters.clients_gone += 1
        self._shared.link.post(ClientGone(self.id))

    def pause(self) -> None:
        self._legs.pause()

    def resume(self) -> None:
        self._legs.resume()

    # what the engine does (LegOwner)

    def stream_opened(self, leg: StreamLeg, content_type: bytes, first: bytes) -> Callable[[bytes], None]:
        self._legs.forget_body()  # what its client has begun to read cannot be begun anew
        self._responder.start(200, content_type, id_line(self.id))
        self._responder.write(first)
        self._shared.link.post(FirstToken(self.id, leg.attempt))
        return self._responder.write

    def stream_ended(self, leg: StreamLeg) -> None:
        if not leg.tally.complete:
            self.leg_failed(leg, "the engine's stream ended without [DONE]")
            return
        self._end()
        self._responder.finish()
        error = leg.tally.error
        if error is not None:  # the client has read it already; the core has not
            self._shared.forget(self.id)
            self.leg_failed(leg, f"HTTP {error.status}", answered=True)
            return
        usage = leg.tally.usage
        tokens = usage.completion_tokens
        if tokens is None:
            tokens = leg.tally.tokens(chat=self._parsed.chat)
        self._shared.prompt_counts.compare(self._parsed, usage.prompt_tokens)
        self._finished(leg, tokens, usage.cached_tokens)

    def answered(self, leg: HeldLeg, status: int, content_type: bytes, body: bytes) -> None:
        if not 200 <= status < 300:
            self._refused(leg, leg.errors.of_answer(status, body), status, content_type, body)
        elif leg.leg is Leg.PREFILL:
            self._prefilled(leg, body)
        elif (usage := usage_if_whole(body)) is None:
            self.leg_failed(leg, _CUT)
        else:
            self._end()
            self._respond(status, content_type, body)
            self._shared.prompt_counts.compare(self._parsed, usage.prompt_tokens)
            self._finished(leg, usage.completion_tokens, usage.cached_tokens)

    def refused_in_stream(self, leg: HeldLeg, error: EngineError) -> None:
        body = error_body(error.status, error.message, code=Ending.REJECTED)
        self._refused(leg, error, error.status, JSON, body)

    def leg_failed(self, leg: HeldLeg, reason: str, *, answered: bool = False, words: str = "") -> None:
        """`answered`: the engine itself said so, in `words`, so it is alive. What becomes of the attempt's other leg is
        the core's to say."""
        self._legs.failed(leg)
        self._words = words
        self._shared.counters.legs_failed += 1
        started = self._responder.started and leg.leg is not Leg.PREFILL
        if started:
            self._shared.counters.streams_broken += 1
        failed = LegFailed(self.id, leg.attempt, leg.leg, reason, started=started, answered=answered)
        self._shared.link.post(failed)

    def _prefilled(self, leg: HeldLeg, body: bytes) -> None:
        assert leg.prefill is not None
        try:
            answer = leg.prefill.answered(body)
        except ValueError as error:
            self.leg_failed(leg, f"the prefill leg's answer cannot be read: {type(error).__name__}")
            return
        if answer.finish_reason in _NO_ANSWER:
            self.leg_failed(leg, f"the engine ended the prefill leg with {answer.finish_reason!r}", answered=True)
            return
        self._shared.prompt_counts.compare(self._parsed, answer.usage.prompt_tokens)
        concurrent = leg.prefill.concurrent
        cut_short = answer.finish_reason == "length" and self._parsed.request.max_output_tokens > 1
        nothing_follows = answer.ended if concurrent else answer.hand_over is None and not cut_short
        if nothing_follows and not self._responder.started:
            self._answer_from_prefill(leg, body, answer.usage)
            return
        # cut by our one token but nothing to pull: the decode leg goes as it is and computes the prompt itself
        self._legs.prefilled(leg, answer.hand_over)
        if answer.hand_over is not None:
            self._shared.counters.handoffs += 1
        elif not concurrent:
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
            self._responder.start(200, EVENT_STREAM, id_line(self.id))
            self._responder.write(events)
            self._responder.finish()
        else:
            self._respond(200, JSON, body)
        self._shared.forget(self.id)
        self._shared.link.post(PrefillDone(self.id, leg.attempt, usage.cached_tokens, handed_off=False))
        self._finished(leg, usage.completion_tokens, usage.cached_tokens)

    def _refused(self, leg: HeldLeg, error: EngineError, status: int, content_type: bytes, body: bytes) -> None:
        """An error answer: the client's own fault is passed on at once, anything else is the core's to decide.

        Engines quote a request in what they say is wrong with it, or with them. The core's reasons are logged and
        recorded, and what a client sent is not: the client alone reads those words.
        """
        if not error.client_fault:
            words = " ".join(error.message.split())[:_WORDS_CHARS]
            self.leg_failed(leg, f"HTTP {status}", answered=True, words=words)
            return
        if content_type.startswith(JSON) and not is_object(body):
            self.leg_failed(leg, _CUT)
            return
        self._end()
        if error.status != status:
            content_type, body = JSON, error_body(error.status, error.message, code=Ending.REJECTED)
        self._respond(error.status, content_type, body, reason_line(Ending.REJECTED))
        reason = f"the engine finds the request wrong: HTTP {status}"
        self._shared.forget(self.id)
        self._shared.link.post(LegFailed(self.id, leg.attempt, leg.leg, reason, client_fault=True))

    def _finished(self, leg: HeldLeg, output_tokens: int | None, cached_tokens: int | None) -> None:
        self._shared.forget(self.id)
        self._shared.counters.handoffs += leg.met
        if output_tokens is not None:
            self._shared.lengths.observe(self._parsed.request.model, output_tokens)
        asked = self._parsed.include_usage or not self._parsed.request.streamed
        self._shared.link.post(RequestFinished(self.id, leg.attempt, output_tokens, cached_tokens, asked))

    def _respond(self, status: int, content_type: bytes, body: bytes, extra: bytes = b"") -> None:
        self._responder.respond(status, content_type, body, extra + id_line(self.id))

    def _end(self) -> None:
        """Nothing is to be done any more. The id is forgotten only after the answer: on its last byte the connection's
        next request may come, and the core, which does not know of the end yet, would refuse a second of that name."""
        self._over = True
        self._legs.end()
