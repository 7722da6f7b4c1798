"""A scripted engine, a scripted core and a raw client, all on real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from vicinal.clock import ModelClock
from vicinal.domain.effects import Answer, Cancel, Dispatch, Effect
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.events import ClientGone, Event, LegFailed, PrefillDone, RequestArrived
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.gateway.access import TrustedHeaders
from vicinal.gateway.app import Gateway, Served
from vicinal.gateway.driver import CoreDriver
from vicinal.gateway.forwarding import Forwarding
from vicinal.gateway.keys import KeyRing
from vicinal.gateway.limits import Limits
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.trust import TrustGroups

WAIT_S = 10.0
PARAMS = b'{"do_remote_prefill": true,  "remote_block_ids": [[1,2]], "remote_engine_id":"p"}'


@dataclass
class Seen:
    """A request as an engine got it."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Reply:
    """What an engine's script answers with."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def json(self, body: Any, status: int = 200) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(raw))
        await self.send(head + raw)

    async def open_stream(self) -> None:
        await self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, data: Any) -> None:
        await self.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    async def done(self) -> None:
        await self.chunk(b"data: [DONE]\n\n")
        await self.send(b"0\r\n\r\n")

    def die(self) -> None:
        self.writer.transport.abort()


Script = Callable[[Seen, Reply], Awaitable[None]]


class FakeEngine:
    """Runs a script per request; notes when the other side closes while a script runs."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.arrived: asyncio.Queue[Seen] = asyncio.Queue()
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._requests(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pushed = b""
        while True:
            head = (pushed + await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            method, path, _ = lines[0].split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
            seen = Seen(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))
            self.seen.append(seen)
            self.arrived.put_nowait(seen)
            script = asyncio.ensure_future(self.script(seen, Reply(writer)))
            watch = asyncio.ensure_future(reader.read(1))
            pushed = b""
            try:
                await asyncio.wait([script, watch], return_when=asyncio.FIRST_COMPLETED)
                if script.done():
                    script.result()
                pushed = await watch
            except ConnectionError:
                seen.gone.set()
                return
            finally:
                watch.cancel()
                script.cancel()
                await asyncio.gather(script, watch, return_exceptions=True)
            if not pushed:
                seen.gone.set()
                return


class FakeScheduler:
    """Answers events by a rule; `saw` waits for an event of a kind."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self.rules: dict[type, Callable[[Any], Sequence[Effect]]] = {}
        self.alarm_s: float | None = None
        self._news = asyncio.Event()

    def on(self, kind: type, rule: Callable[[Any], Sequence[Effect]]) -> None:
        self.rules[kind] = rule

    def handle(self, event: Event, now_s: float) -> Sequence[Effect]:
        self.events.append(event)
        self.times.append(now_s)
        self._news.set()
        rule = self.rules.get(type(event))
        return rule(event) if rule else []

    def next_alarm(self) -> float | None:
        return self.alarm_s

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    async def saw(self, kind: type, number: int = 1) -> Any:
        async with asyncio.timeout(WAIT_S):
            while len(self.of(kind)) < number:
                self._news.clear()
                await self._news.wait()
        return self.of(kind)[number - 1]


def plan(prefill: str, decode: str) -> Plan:
    return Plan(EndpointId(prefill), EndpointId(decode), Action.RECOMPUTE, 0, 0, 0)


def dispatch(request_id: Any, leg: Leg, endpoint: str, attempt: int = 1) -> Dispatch:
    return Dispatch(request_id, attempt, leg, EndpointId(endpoint), plan(endpoint, endpoint))


def hands_off(scheduler: FakeScheduler, prefill: str = "p", decode: str = "d") -> None:
    """The rule of a plan with two legs; a failure ends the request."""
    scheduler.on(RequestArrived, lambda e: [dispatch(e.request.id, Leg.PREFILL, prefill)])
    scheduler.on(PrefillDone, lambda e: [dispatch(e.request_id, Leg.DECODE, decode, e.attempt)] if e.handed_off else [])
    ends_on_failure(scheduler)


def leaves_together(scheduler: FakeScheduler, prefill: str = "p", decode: str = "d", attempts: int = 1) -> None:
    """The rule of a concurrent hand-off: both legs at once; a leg that fails cancels the other."""

    def both(request_id: Any, attempt: int) -> list[Effect]:
        joint = plan(prefill, decode)
        return [
            Dispatch(request_id, attempt, Leg.PREFILL, EndpointId(prefill), joint),
            Dispatch(request_id, attempt, Leg.DECODE, EndpointId(decode), joint),
        ]

    def failed(event: LegFailed) -> list[Effect]:
        cancel: list[Effect] = [Cancel(event.request_id, event.attempt)]
        if event.attempt < attempts and not event.started:
            return [*cancel, *both(event.request_id, event.attempt + 1)]
        ending = Ending.STREAM_BROKEN if event.started else Ending.ENGINE_FAILED
        return [*cancel, Answer(event.request_id, Outcome(ending, event.reason, 1.2))]

    scheduler.on(RequestArrived, lambda e: both(e.request.id, 1))
    scheduler.on(LegFailed, failed)
    scheduler.on(ClientGone, lambda e: [Cancel(e.request_id, 1)])


def goes_whole(scheduler: FakeScheduler, endpoint: str = "d") -> None:
    """The rule of a plan with one leg."""
    scheduler.on(RequestArrived, lambda e: [dispatch(e.request.id, Leg.WHOLE, endpoint)])
    ends_on_failure(scheduler)


def ends_on_failure(scheduler: FakeScheduler) -> None:
    def failed(event: LegFailed) -> list[Effect]:
        ending = Ending.STREAM_BROKEN if event.started else Ending.ENGINE_FAILED
        return [Answer(event.request_id, Outcome(ending, event.reason, 1.2))]

    scheduler.on(LegFailed, failed)
    scheduler.on(ClientGone, lambda e: [Cancel(e.request_id, 1)])


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Client:
    """A connection that sends exactly the bytes it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def post(self, body: Any, path: str = "/v1/completions", headers: str = "") -> None:
        self.send(message(body, path, headers))

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(WAIT_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        return int(lines[0].split()[1]), headers

    async def chunk(self) -> bytes:
        async with asyncio.timeout(WAIT_S):
            size = int((await self.reader.readline()).strip(), 16)
            data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def response(self) -> Response:
        status, headers = await self.head()
        body = b""
        if "content-length" in headers:
            async with asyncio.timeout(WAIT_S):
                body = await self.reader.readexactly(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while chunk := await self.chunk():
                body += chunk
        else:
            async with asyncio.timeout(WAIT_S):
                body = await self.reader.read()
        return Response(status, headers, body)

    async def closed(self) -> bytes:
        """Waits for the server to close; what it sent before."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.read()

    def drop(self) -> None:
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


def message(body: Any, path: str = "/v1/completions", headers: str = "") -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(raw)}\r\n\r\n".encode() + raw


def prefill_answer(finish: str = "length", params: bytes = PARAMS, chat: bool = False) -> bytes:
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
    if chat:
        choice["message"] = {"role": "assistant", "content": "Hi", "refusal": None}
    else:
        choice["text"] = "Hi"
    body = {
        "id": "cmpl-1",
        "object": "chat.completion" if chat else "text_completion",
        "created": 7,
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
    }
    return json.dumps(body).encode()[:-1] + b',"kv_transfer_params":' + params + b"}"


def text_event(text: str) -> dict[str, Any]:
    return {"id": "cmpl-1", "object": "text_completion", "choices": [{"index": 0, "text": text}]}


class World:
    """A gateway with its scripted surroundings."""

    def __init__(self) -> None:
        self.scheduler = FakeScheduler()
        self.engines: dict[str, FakeEngine] = {}
        self.described: dict[str, dict[str, Any]] = {}
        self.gateway: Gateway
        self.driver: CoreDriver
        self.port = 0
        self.captured: list[tuple[Event, float]] = []
        self._clients: list[Client] = []

    async def engine(self, name: str, script: Script, **described: Any) -> FakeEngine:
        """`described` is what its endpoint says besides the usual."""
        self.described[name] = described
        engine = self.engines[name] = FakeEngine(script)
        await engine.start()
        return engine

    async def start(
        self,
        *,
        limits: Limits | None = None,
        models: Sequence[ServedModel] = (ServedModel(ModelId("m"), 4, 1000),),
        trusted: TrustedHeaders | None = None,
        clock: ModelClock | None = None,
        trust: TrustGroups | None = None,
        keys: KeyRing | None = None,
        forwarding: Forwarding = Forwarding(),  # noqa: B008 (a frozen value)
    ) -> None:
        served = Served(
            tuple(models), self.endpoints(), trusted or TrustedHeaders(), trust or TrustGroups(), keys, forwarding
        )
        self.gateway = Gateway(served, limits)
        self.driver = CoreDriver(
            self.scheduler,
            clock or ModelClock(),
            asyncio.get_running_loop(),
            self.gateway.perform,
            record=lambda *_: None,
            observe=lambda _: None,
            warn=lambda _: None,
            capture=lambda event, now: self.captured.append((event, now)),
        )
        self.gateway.connect(self.driver)
        self.port = await self.gateway.start("127.0.0.1", 0)

    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(
            Endpoint(
                EndpointId(name),
                f"http://127.0.0.1:{engine.port}",
                Role.BOTH,
                ModelId("m"),
                "x",
                10,
                4,
                1,
                1000,
                1e9,
                **self.described[name],
            )
            for name, engine in self.engines.items()
        )

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._clients.append(client)
        return client

    async def ask(self, body: Any, path: str = "/v1/completions", headers: str = "") -> Response:
        client = await self.client()
        client.post(body, path, headers)
        return await client.response()

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
        if self.port:
            await self.gateway.stop()
            self.driver.close()
            assert self.gateway.relay.under_way == 0, "an exchange was left behind"
            assert self.gateway._pool.busy_count == 0, "an engine connection was left busy"
        for engine in self.engines.values():
            await engine.stop()


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both kinds of loop: what holds for the one's transports does not always hold for the other's."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.stop()


class Kit:
    """What tests need of this file, which they cannot import."""

    Client = Client
    PARAMS = PARAMS
    dispatch = staticmethod(dispatch)
    hands_off = staticmethod(hands_off)
    goes_whole = staticmethod(goes_whole)
    leaves_together = staticmethod(leaves_together)
    ends_on_failure = staticmethod(ends_on_failure)
    message = staticmethod(message)
    prefill_answer = staticmethod(prefill_answer)
    text_event = staticmethod(text_event)
    FakeScheduler = FakeScheduler


@pytest.fixture
def kit() -> type[Kit]:
    return Kit
