"""Engines that die, stall and lie at any byte: a client reads a whole right answer, or a documented error.

The core here plans once more after a failure, on an engine that is well: so an answer that broke before its first byte
for the client is one that the client reads whole, from the other.
"""

import asyncio
import json
import random
from itertools import pairwise

import pytest

from vicinal.domain.effects import Answer
from vicinal.domain.events import ClientGone, LegFailed, RequestArrived
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Leg
from vicinal.gateway.engine_faults import EngineFault
from vicinal.gateway.limits import Limits

BODY = {"model": "m", "prompt": [1, 2, 3, 4, 5]}
STREAMED = BODY | {"stream": True}
OK = b"HTTP/1.1 200 OK\r\n"
TYPED = b"Content-Type: application/json\r\n"
SSE = b"Content-Type: text/event-stream\r\n"
WHOLE = json.dumps(
    {"choices": [{"text": "right", "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}
).encode()
EVENTS = [
    b'data: {"choices":[{"text":"ri"}]}\n\n',
    b'data: {"choices":[{"text":"ght data: [DONE]"}]}\n\n',
    b"data: [DONE]\n\n",
]
STREAM = b"".join(EVENTS)


def sized(body: bytes = WHOLE, length: int | None = None, head: bytes = TYPED) -> bytes:
    return OK + head + b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


def chunks(pieces: list[bytes], head: bytes = SSE) -> bytes:
    coded = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return OK + head + b"Transfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n\r\n"


def to_the_end(body: bytes, head: bytes = TYPED) -> bytes:
    """Neither a length nor chunks: the end of the connection ends the body."""
    return OK + head + b"\r\n" + body


class RawEngine:
    """Sends `said` for each request, in `pieces`, and then closes, resets, waits, or serves on."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.then = "close"
        self.asked = 0
        self.early = False
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def says(self, said: bytes, *cuts: int, then: str = "close") -> None:
        places = [0, *sorted(cuts), len(said)]
        self.pieces = [said[a:b] for a, b in pairwise(places) if a < b]
        self.then = then

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if not self.early:
                    await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                self.asked += 1
                for piece in self.pieces:
                    writer.write(piece)
                    await asyncio.sleep(0)
                if self.then == "reset":
                    await asyncio.sleep(0)
                    writer.transport.abort()
                    return
                if self.then == "close":
                    return
                if self.then == "wait":
                    await reader.read()
        except (EOFError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


@pytest.fixture
async def pair(world, kit):
    """A hostile engine that is asked first, and one that is well for the second attempt."""

    async def well(seen, reply):
        if seen.body.get("stream"):
            await reply.open_stream()
            for event in EVENTS:
                await reply.chunk(event)
            await reply.send(b"0\r\n\r\n")
        else:
            await reply.json(WHOLE)

    await world.engine("well", well)
    hostile = RawEngine()
    await hostile.start()
    world.described["hostile"] = {}
    world.engines["hostile"] = hostile

    def failed(event):
        if event.attempt == 1 and not event.started:
            return [kit.dispatch(event.request_id, Leg.WHOLE, "well", 2)]
        ending = Ending.STREAM_BROKEN if event.started else Ending.ENGINE_FAILED
        return [Answer(event.request_id, Outcome(ending, event.reason, 1.0))]

    world.scheduler.on(RequestArrived, lambda e: [kit.dispatch(e.request.id, Leg.WHOLE, "hostile")])
    world.scheduler.on(LegFailed, failed)
    world.scheduler.on(ClientGone, lambda e: [])
    await world.start(limits=Limits(engine_silence_s=0.2, answer_head_bytes=4096))
    return world, hostile


async def asks(world, body) -> None:
    """Whatever the engine did: a whole right answer, or a stream that says itself that it broke."""
    client = await world.client()
    client.post(body)
    response = await client.response()
    assert response.status == 200
    if not body.get("stream"):
        assert response.body == WHOLE
    elif response.body != STREAM:
        assert await client.closed() == b""
        sent, _, error = response.body.rpartition(b"data: ")
        assert STREAM.startswith(sent)
        assert json.loads(error)["error"]["code"] == "stream_broken"
        assert b"\n\ndata: [DONE]" not in response.body
    client.close()


RECORDED = {
    "sized": (BODY, sized()),
    "chunked": (BODY, chunks([WHOLE[:20], WHOLE[20:21], WHOLE[21:]], TYPED)),
    "to the end": (BODY, to_the_end(WHOLE)),
    "announced": (BODY, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + sized()),
    "stream": (STREAMED, chunks(EVENTS)),
    "stream with its length": (STREAMED, sized(STREAM, head=SSE)),
    "stream to the end": (STREAMED, to_the_end(STREAM, SSE)),
}


@pytest.mark.mission("B16")
@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("name", RECORDED)
async def test_a_connection_that_ends_at_any_byte_of_an_answer(pair, name: str, then: str) -> None:
    world, hostile = pair
    body, said = RECORDED[name]
    for cut in range(len(said) + 1):
        hostile.says(said[:cut], then=then)
        await asks(world, body)
    faults = world.gateway.counts()["engine_faults"]
    assert faults["cut_short"] > 10
    assert hostile.asked == len(said) + 1


@pytest.mark.parametrize("name", RECORDED)
async def test_an_answer_that_comes_in_any_pieces(pair, name: str) -> None:
    world, hostile = pair
    body, said = RECORDED[name]
    chance = random.Random(5)
    for _ in range(60):
        hostile.says(said, *chance.sample(range(len(said)), chance.randrange(8)), then="close")
        await asks(world, body)
    assert not world.scheduler.of(LegFailed)


@pytest.mark.parametrize("cut", [0, 5, 30, 100])
async def test_an_engine_that_stalls(pair, cut: int) -> None:
    world, hostile = pair
    hostile.says(sized()[:cut], then="wait")
    await asks(world, BODY)
    assert world.gateway.counts()["engine_faults"]["silent"] == 1


LIES = {
    "a length that is too long": (sized(length=len(WHOLE) + 1), EngineFault.CUT_SHORT),
    "a length that is too short": (sized(length=len(WHOLE) - 1), EngineFault.UNASKED_BYTES),
    "two lengths": (sized(head=TYPED + b"Content-Length: 3\r\n"), EngineFault.MALFORMED),
    "a length and chunks": (chunks([WHOLE], TYPED + b"Content-Length: 3\r\n"), EngineFault.MALFORMED),
    "a chunk size that is none": (chunks([WHOLE], TYPED).replace(b"\r\n\r\n", b"\r\n\r\nz", 1), EngineFault.MALFORMED),
    "a chunk that is too short": (chunks([WHOLE], TYPED).replace(WHOLE, WHOLE[1:]), EngineFault.MALFORMED),
    "garbage": (b"\x16\x03\x01\x02" * 100, EngineFault.MALFORMED),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", EngineFault.MALFORMED),
    "bare line feeds": (sized().replace(b"\r\n", b"\n"), EngineFault.MALFORMED),
    "status 99": (sized().replace(b"200", b"099"), EngineFault.MALFORMED),
    "a switch of protocols": (b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", EngineFault.MALFORMED),
    "a gzip coding": (chunks([WHOLE], TYPED).replace(b"chunked", b"gzip, chunked"), EngineFault.UNSUPPORTED_CODING),
    "a gzip content": (sized(head=TYPED + b"Content-Encoding: gzip\r\n"), EngineFault.UNSUPPORTED_CODING),
    "announcements without end": (b"HTTP/1.1 102 X\r\n\r\n" * 1000, EngineFault.HEAD_TOO_LARGE),
    "a head without end": (OK + b"X-A: b\r\n" * 10_000, EngineFault.HEAD_TOO_LARGE),
    "a header line without end": (OK + b"X-A: " + b"b" * 10_000, EngineFault.HEAD_TOO_LARGE),
    "no content, with a body": (sized().replace(b"200 OK", b"204 OK"), EngineFault.UNASKED_BYTES),
    "not modified, with a body": (sized().replace(b"200 OK", b"304 OK"), EngineFault.UNASKED_BYTES),
    "a success that is no JSON": (sized(b"<html>"), None),
    "a success of another shape": (sized(b"[1]"), None),
    "a refusal that is cut": (sized(b'{"error": "wro').replace(b"200 OK", b"400 X"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
async def test_an_engine_that_lies(pair, name: str) -> None:
    world, hostile = pair
    said, fault = LIES[name]
    hostile.says(said)
    await asks(world, BODY)
    assert len(world.scheduler.of(LegFailed)) == 1
    counted = {kind: number for kind, number in world.gateway.counts()["engine_faults"].items() if number}
    assert counted == ({fault.value: 1} if fault else {})


async def test_chunk_lines_without_an_end_are_no_progress(pair) -> None:
    world, hostile = pair
    hostile.says(OK + TYPED + b"Transfer-Encoding: chunked\r\n\r\n5;", then="wait")
    hostile.pieces += [b"x" * 500] * 100
    await asks(world, BODY)
    assert world.gateway.counts()["engine_faults"]["framing_too_large"] == 1


@pytest.mark.parametrize("then", ["close", "serve on"])
async def test_two_answers_to_one_request(pair, then: str) -> None:
    """The second one answers nobody: the next request gets its own."""
    world, hostile = pair
    wrong = json.dumps({"choices": [{"text": "wrong"}]}).encode()
    for _ in range(5):
        hostile.says(sized() + sized(wrong), then=then)
        await asks(world, BODY)
    assert world.gateway.counts()["engine_faults"]["unasked_bytes"] == 5
    assert not world.scheduler.of(LegFailed)


async def test_bytes_that_come_while_nothing_is_asked_end_the_connection(pair) -> None:
    world, hostile = pair
    said = sized()
    hostile.says(said + sized(b'{"late": 1}'), len(said), then="serve on")
    for _ in range(5):
        await asks(world, BODY)
        await asyncio.sleep(0.02)
    assert world.gateway.counts()["engine_faults"]["unasked_bytes"] == 5
    assert not world.scheduler.of(LegFailed)


async def test_an_answer_before_the_request_is_sent_whole(pair, kit) -> None:
    """Its connection carries no further request: what is left of this one would be read as the next."""
    world, hostile = pair
    hostile.early = True
    refusal = b'{"error": {"message": "too large"}}'
    hostile.says(sized(refusal).replace(b"200 OK", b"413 X"), then="wait")
    client = await world.client()
    client.post(BODY | {"prompt": "x" * 8_000_000, "model": "m"})
    response = await client.response()
    assert response.status in (400, 413)
    client.close()
    pool = world.gateway._pool
    assert not any(pool._idle.values())


async def test_a_stream_that_said_it_is_done_before_its_connection_broke_is_whole(pair) -> None:
    world, hostile = pair
    hostile.says(chunks(EVENTS).removesuffix(b"0\r\n\r\n"), then="reset")
    client = await world.client()
    client.post(STREAMED)
    assert (await client.response()).body == STREAM
    assert not world.scheduler.of(LegFailed)


@pytest.mark.parametrize("said", [b"", b"\r\n"])
async def test_an_idle_connection_that_an_engine_closed_is_no_failure(pair, said: bytes) -> None:
    """Requests are sent again on a fresh connection, once: never after a byte of an answer."""
    world, hostile = pair
    hostile.says(sized() + said, then="serve on")
    await asks(world, BODY)
    for _ in range(5):
        for idle in world.gateway._pool._idle.values():
            assert idle
        hostile.says(b"", then="close")
        again = asyncio.ensure_future(asks(world, BODY))
        async with asyncio.timeout(10.0):
            while hostile.asked % 2:
                await asyncio.sleep(0)
        hostile.says(sized() + said, then="serve on")
        await again
    assert not world.scheduler.of(LegFailed)
    assert world.gateway.counters.stale_retries == 5
