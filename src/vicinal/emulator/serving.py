"""The HTTP face of one emulated engine, as its API server has it, and the figures that real ones do not have."""

import asyncio
import logging
import time
from array import array
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import msgspec
from aiohttp import web

from vicinal.domain.plan import Leg
from vicinal.emulator.bodies import TOKENIZE, ChatBody
from vicinal.emulator.errors import ApiError, HandOffError, HolderGoneError, bad_json, internal_error, too_long
from vicinal.emulator.leg import LegBrokenError, RunningLeg
from vicinal.emulator.order import Order
from vicinal.emulator.shapes import DONE, Heading, StreamShape, Usage
from vicinal.emulator.station import Station
from vicinal.enginemodel.spec import WorkTooLargeError
from vicinal.enginemodel.work import Finished

BODY_BYTES_MAX = 64 << 20

_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Serving:
    """`summary` makes the fleet's figures. A dead holder is given up after `holder_timeout_s` model seconds."""

    def __init__(self, station: Station, summary: Callable[[], dict[str, Any]], holder_timeout_s: float) -> None:
        self._station = station
        self._summary = summary
        self._holder_timeout_s = holder_timeout_s

    def application(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._errors])
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/reset_prefix_cache", self._reset)
        app.router.add_post("/flush_cache", self._reset)
        app.router.add_get("/emulator/stamps", self._stamps)
        app.router.add_get("/emulator/summary", self._figures)
        return app

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._station.orders.completion(await request.read()))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._station.orders.chat(await request.read()))

    async def _answer(self, request: web.Request, order: Order) -> web.StreamResponse:
        station = self._station
        request_id = request.headers.get("X-Request-Id") or uuid4().hex[:16]
        answer_id = ("chatcmpl-" if order.chat else "cmpl-") + request_id
        face, model = station.face, station.endpoint.model
        heading = face.heading(answer_id, int(time.time()), model, station.fingerprint, order.chat)
        if order.streamed:
            return await self._stream(request, order, heading, request_id)
        leg = await self._begin(order, answer_id, request_id)
        try:
            end = await leg.end()
            await _handed_over(leg)
        except LegBrokenError as error:
            station.note_broken(leg, error)
            raise internal_error() from None
        finally:
            station.drop(leg)
        text = station.speech.text(_words(leg, 0, end.output_tokens))
        body = heading.whole(text, order.reason, _usage(order, end), station.hand_off(leg, end))
        return web.Response(body=body, content_type="application/json")

    async def _stream(
        self, request: web.Request, order: Order, heading: Heading, request_id: str
    ) -> web.StreamResponse:
        """vLLM sends the head of a stream before its engine has looked at the request; later errors are events."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        try:
            await response.prepare(request)
            try:
                leg = await self._begin(order, heading.id, request_id)
                await self._write(response, leg, order, self._station.face.stream(heading, self._station.speech))
            except ApiError as error:
                await response.write(b"data: " + error.body() + b"\n\n" + DONE)
            await response.write_eof()
        except ConnectionError:
            # The client is gone, and its work has been dropped on the way here.
            return response
        return response

    async def _write(self, response: web.StreamResponse, leg: RunningLeg, order: Order, shape: StreamShape) -> None:
        parts = [shape.opening()]
        seen, end = 0, None
        try:
            while end is None:
                end = await leg.changed(seen)
                if end is not None:
                    await _handed_over(leg)
                upto = leg.work.content.output_tokens - 1 if end is not None else leg.generated
                if upto > seen:
                    parts.append(shape.tokens(_words(leg, seen, upto)))
                    seen = upto
                if end is not None:
                    parts.append(shape.last(_words(leg, upto, upto + 1)[0], order.reason))
                    if order.include_usage:
                        parts.append(shape.usage(_usage(order, end)))
                    parts.append(DONE)
                await response.write(b"".join(parts))
                parts.clear()
        except LegBrokenError as error:
            self._station.note_broken(leg, error)
            raise internal_error() from None
        finally:
            self._station.drop(leg)

    async def _begin(self, order: Order, answer_id: str, request_id: str) -> RunningLeg:
        station = self._station
        try:
            return station.begin(order, answer_id, request_id)
        except WorkTooLargeError as error:
            raise too_long(order.prompt_tokens, order.output_tokens, error.tokens_max) from None
        except HandOffError as error:
            station.hand_offs_refused += 1
            _log.error("%s: request %s refused: %s", station.endpoint.id, request_id, error)
            raise internal_error() from None
        except HolderGoneError as error:
            station.hand_offs_refused += 1
            _log.error("%s: request %s: %s", station.endpoint.id, request_id, error)
            await asyncio.sleep(self._holder_timeout_s / station.clock.speed)
            raise internal_error() from None

    async def _models(self, _: web.Request) -> web.Response:
        station = self._station
        body = station.face.models(station.endpoint.model, station.created, station.endpoint.model_tokens_max)
        return web.Response(body=body, content_type="application/json")

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _metrics(self, _: web.Request) -> web.Response:
        self._station.driver.refresh()
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._station.metrics.text(), headers=headers)

    async def _tokenize(self, request: web.Request) -> web.Response:
        station = self._station
        try:
            body = TOKENIZE.decode(await request.read())
        except msgspec.DecodeError as error:
            raise bad_json(error) from None
        station.orders.check_model(body.model)
        if body.messages is not None:
            tokens = station.orders.chat_tokens(ChatBody(messages=body.messages, tools=body.tools))
        else:
            tokens = station.codec.encode(body.prompt or "", add_special_tokens=body.add_special_tokens)
        limit = station.endpoint.model_tokens_max
        return _json({"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": None})

    async def _reset(self, _: web.Request) -> web.Response:
        return _json({"success": self._station.driver.reset_prefix_cache()})

    async def _stamps(self, _: web.Request) -> web.Response:
        self._station.driver.refresh()
        return _json(self._station.stamps.drain())

    @web.middleware
    async def _errors(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            body = error.body(self._station.face.flat_errors)
            return web.Response(status=error.status, body=body, content_type="application/json")

    async def _figures(self, _: web.Request) -> web.Response:
        return _json(self._summary())


async def _handed_over(leg: RunningLeg) -> None:
    """An engine that prefills for a partner answers when the partner has the KV. Raises LegBrokenError."""
    if leg.meeting is not None and leg.kind is Leg.PREFILL and (reason := await leg.meeting.sent()) is not None:
        raise LegBrokenError(reason)


def _words(leg: RunningLeg, first: int, last: int) -> "array[int]":
    tokens = array("I")
    tokens.frombytes(leg.output[4 * first : 4 * last])
    return tokens


def _usage(order: Order, end: Finished) -> Usage:
    """A decode leg repeats what the prefill leg said it had cached, not what it found itself. So does vLLM."""
    cached = end.cached_tokens
    if order.kind is Leg.DECODE and order.hand_off is not None:
        cached = order.hand_off.remote_prefill_cached_tokens or 0
    return Usage(end.prompt_tokens, end.output_tokens, cached)


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
