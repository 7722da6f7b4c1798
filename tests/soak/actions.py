"""What hostile and broken clients do. Each action opens its own connections, and leaves none behind."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from tests.http.cases import CASES
from tests.soak.normal import Question
from tests.soak.wire import Wire, post, wire

MIB = 1024 * 1024
_OF_THE_BOUNDS = (413, 414, 431)
_QUIET_S = 2.0


class SurpriseError(Exception):
    """The server did something else than docs/http.md says."""


@dataclass(frozen=True, slots=True)
class Target:
    """`body_bytes_max` is the server's bound; `hold_s` is how long an action may hold on to the server."""

    host: str
    port: int
    questions: list[Question]
    chance: random.Random
    body_bytes_max: int = 16 * MIB
    hold_s: float = 90.0

    def question(self, tokens: int, *, streamed: bool) -> bytes:
        asked = self.questions[self.chance.randrange(len(self.questions))]
        return post(asked.path, asked.body | {"stream": streamed, "max_tokens": tokens})


async def malformed(target: Target) -> None:
    """One case of the table, whole or torn."""
    case = target.chance.choice(CASES)
    async with wire(target.host, target.port) as opened:
        if target.chance.random() < 0.3 and len(case.sent) < 500:
            for byte in case.sent:
                await opened.send(bytes([byte]))
                await asyncio.sleep(0)
        else:
            await opened.send(case.sent)
        if case.kind is None or set(case.statuses) & set(_OF_THE_BOUNDS) or len(case.sent) > 500:
            await asyncio.sleep(0.05)
            return
        answer = await opened.answer()
        while len(case.statuses) > 1 and opened.kept:
            answer = await opened.answer()
        if answer.status != case.statuses[-1]:
            raise SurpriseError(f"{case.name}: {answer.status} instead of {case.statuses[-1]}")


async def garbage(target: Target) -> None:
    async with wire(target.host, target.port) as opened:
        await opened.send(target.chance.randbytes(target.chance.choice((1, 100, 10_000, 100_000))))
        async with asyncio.timeout(_QUIET_S):
            await opened.reader.read()


async def slow_head(target: Target) -> None:
    """A header line every other second, until the server has had enough."""
    async with wire(target.host, target.port) as opened:
        await opened.send(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\n")
        await _drip(opened, b"X-A: b\r\n", target)
        if not (await opened.reader.read(100)).startswith(b"HTTP/1.1 408"):
            raise SurpriseError("a slow head was not answered with 408")


async def slow_body(target: Target) -> None:
    async with wire(target.host, target.port) as opened:
        await opened.send(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
        await _drip(opened, b"x", target)


async def _drip(opened: Wire, piece: bytes, target: Target) -> None:
    """Until the server answers or closes."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + target.hold_s
    while loop.time() < until_s and not opened.reader._buffer and not opened.reader.at_eof():  # type: ignore[attr-defined]
        await opened.send(piece)
        await asyncio.sleep(2.0)


async def aborted_body(target: Target) -> None:
    message = target.question(16, streamed=False)
    async with wire(target.host, target.port) as opened:
        await opened.send(message[: target.chance.randrange(1, len(message))])
        await asyncio.sleep(target.chance.random() * 0.2)


async def aborted_answer(target: Target) -> None:
    """A client that has gone before its plain answer is there."""
    async with wire(target.host, target.port) as opened:
        await opened.send(target.question(64, streamed=False))
        await asyncio.sleep(target.chance.random() * 0.3)


async def aborted_stream(target: Target) -> None:
    async with wire(target.host, target.port) as opened:
        await opened.send(target.question(200, streamed=True))
        async with asyncio.timeout(20.0):
            for _ in range(target.chance.randrange(1, 6)):
                await opened.reader.read(200)


async def half_closed(target: Target) -> None:
    """Counts as gone: what it asked for is cancelled."""
    async with wire(target.host, target.port) as opened:
        await opened.send(target.question(64, streamed=True))
        opened.writer.write_eof()
        async with asyncio.timeout(20.0):
            await opened.reader.read()


async def stalled_reader(target: Target) -> None:
    """Long answers, and a client that reads nothing of them."""
    async with wire(target.host, target.port, receive_bytes=4096) as opened:
        opened.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await opened.send(target.question(4000, streamed=True))
        await asyncio.sleep(target.chance.random() * target.hold_s)


async def oversize_stated(target: Target) -> None:
    async with wire(target.host, target.port) as opened:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {target.body_bytes_max + 1}\r\n\r\n"
        await opened.send(head.encode() + b"x" * 100_000)
        if (status := (await opened.answer()).status) != 413:
            raise SurpriseError(f"a body that is stated too large: {status}")


async def oversize_chunked(target: Target) -> None:
    async with wire(target.host, target.port) as opened:
        await opened.send(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"40000\r\n" + b"x" * 0x40000 + b"\r\n"
        for _ in range(target.body_bytes_max // 0x40000 + 1):
            await opened.send(piece)
            await asyncio.sleep(0.002)
        if (status := (await opened.answer()).status) != 413:
            raise SurpriseError(f"a chunked body that is too large: {status}")


async def large_nonsense(target: Target) -> None:
    """A large body that is no JSON."""
    async with wire(target.host, target.port) as opened:
        await opened.send(post("/v1/completions", b"[" * (2 * MIB)))
        if (status := (await opened.answer()).status) != 400:
            raise SurpriseError(f"a body of brackets: {status}")


async def tiny_chunks(target: Target) -> None:
    async with wire(target.host, target.port) as opened:
        await opened.send(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):
            await opened.send(b"1;x=y\r\n{\r\n" * 2000)


async def flood_read(target: Target) -> None:
    """Pipelined requests, all answered in order."""
    async with wire(target.host, target.port) as opened:
        opened.writer.write(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n" * 1000)
        for _ in range(1000):
            await opened.answer()


async def flood_unread(target: Target) -> None:
    async with wire(target.host, target.port, receive_bytes=4096) as opened:
        opened.writer.transport.pause_reading()  # type: ignore[attr-defined]
        opened.writer.write(b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n" * 20_000)
        await asyncio.sleep(target.chance.random() * target.hold_s)


async def connections(target: Target) -> None:
    """A hundred connections that say nothing, or half a request, for some seconds."""
    async with AsyncExitStack() as held:
        for _ in range(100):
            opened = await held.enter_async_context(wire(target.host, target.port))
            if target.chance.random() < 0.5:
                await opened.send(b"GET /hea")
        await asyncio.sleep(target.chance.random() * 5.0)


Action = Callable[[Target], Awaitable[None]]

WEIGHTS: dict[Action, float] = {
    malformed: 40,
    garbage: 8,
    slow_head: 4,
    slow_body: 1,
    aborted_body: 8,
    aborted_answer: 6,
    aborted_stream: 6,
    half_closed: 4,
    stalled_reader: 1,
    oversize_stated: 2,
    oversize_chunked: 0.2,
    large_nonsense: 0.5,
    tiny_chunks: 1,
    flood_read: 0.5,
    flood_unread: 0.3,
    connections: 0.3,
}
"""How often each is drawn, relative to the others."""
