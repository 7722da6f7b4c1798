"""Copies of prefixes, asked for by an operator: a prompt's KV is brought to an endpoint by a hand-off between engines.

The prompt comes as the body that its requests have, so that it is rendered, tokenised and salted as theirs are. What is
sent to engines is that prompt and nothing else of the body: one token, whatever it is, and no way to end earlier.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from vicinal.domain.decision import Decision
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Leg
from vicinal.domain.request import BATCH
from vicinal.engines.copying import prompt_body
from vicinal.engines.long_body import in_pieces
from vicinal.gateway.caller import Caller
from vicinal.gateway.errors import AnswerError, invalid
from vicinal.gateway.parse import ParsedRequest, RequestParser
from vicinal.gateway.reading.room import ReadingRoom
from vicinal.gateway.relay import Relay
from vicinal.gateway.responder import Responder

CHAT, COMPLETION = b"/v1/chat/completions", b"/v1/completions"


class CopyOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What an operator sends: `request` is the body of a chat or of a completion."""

    target: str
    request: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy that was made. `moved_tokens` are those that the target did not hold before, as far as was known."""

    id: RequestId
    source: EndpointId
    target: EndpointId
    prompt_tokens: int
    moved_tokens: int
    seconds: float


class _Kept:
    """The answer that nobody wants, until it is known whether it is one."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1])

    @property
    def body(self) -> bytes:
        return bytes(self.data.partition(b"\r\n\r\n")[2])


class Copier:
    """Makes copies through a relay. Whoever hears of decisions tells it (`decided`)."""

    def __init__(self, relay: Relay, parser: RequestParser, room: ReadingRoom) -> None:
        self._relay = relay
        self._parser = parser
        self._room = room
        self._decisions: dict[RequestId, Decision | None] = {}

    def decided(self, decision: Decision) -> None:
        """Notes where a copy goes; the last decision of several counts."""
        if decision.request_id in self._decisions:
            self._decisions[decision.request_id] = decision

    async def copy(self, order: CopyOrder, caller: Caller, headers: Mapping[bytes, bytes]) -> Copied:
        """Make a copy on behalf of `caller`; wait for its end. Raises AnswerError, which says why not."""
        request_id = self._relay.name({})
        try:
            body, chat = prompt_body(bytes(order.request))
        except ValueError as error:
            raise invalid(f"request is not the body of a chat or completion: {error}", param="request") from None
        parsed = await self._parse(request_id, body, caller, chat=chat)
        if not parsed.request.splittable:
            raise invalid("a copy is of one prompt", param="request")
        asked = replace(parsed.request, copy_to=EndpointId(order.target), service=BATCH)
        self._decisions[request_id] = None
        started_s = time.monotonic()
        try:
            await self._carry_out(replace(parsed, request=asked), body, CHAT if chat else COMPLETION, headers)
            last = self._decisions[request_id]
        finally:
            del self._decisions[request_id]
        if last is None:
            raise RuntimeError("a copy was answered without a decision")
        plan = last.chosen.plan
        if last.leg is not Leg.DECODE:
            message = f"{plan.prefill} handed nothing over: does it run with a connector?"
            raise AnswerError(Ending.ENGINE_FAILED.http_status, message, code=Ending.ENGINE_FAILED)
        seconds = time.monotonic() - started_s
        return Copied(request_id, plan.prefill, plan.decode, asked.prompt_tokens, plan.moved_tokens, seconds)

    async def _parse(self, request_id: RequestId, body: bytes, caller: Caller, *, chat: bool) -> ParsedRequest:
        if len(body) <= self._relay.limits.long_body_bytes:
            return (self._parser.chat if chat else self._parser.completion)(request_id, body, caller)
        parsed, _ = await self._room.read(in_pieces(body), caller, chat=chat)
        return self._parser.adopt(parsed, request_id)

    async def _carry_out(self, parsed: ParsedRequest, body: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> None:
        kept, over = _Kept(), asyncio.get_running_loop().create_future()
        responder = Responder(kept, keep_alive=False, http10=True, finished=lambda _: over.set_result(None))
        self._relay.submit(parsed, body, path, headers, responder)
        try:
            await over
        except asyncio.CancelledError:
            responder.abandon()
            raise
        if kept.status != 200:
            raise _refusal(kept.status, kept.body)


class _Stated(msgspec.Struct):
    message: str
    code: str | int | None = None


class _Refusal(msgspec.Struct):
    error: _Stated


def _refusal(status: int, body: bytes) -> AnswerError:
    """The core's words, or an engine's."""
    try:
        stated = msgspec.json.decode(body, type=_Refusal).error
    except msgspec.MsgspecError:
        return AnswerError(status, "an engine refused the prompt, in words that cannot be read")
    return AnswerError(status, stated.message, code=None if stated.code is None else str(stated.code))
