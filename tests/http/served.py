"""A bare HTTP server of ours, whose handler says what it was given, and a client that sends exactly what it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vicinal.gateway.http_message import HttpRequest
from vicinal.gateway.http_server import HttpServer
from vicinal.gateway.kind_counts import KindCounts
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind
from vicinal.gateway.responder import Responder

WAIT_S = 10.0


class Served:
    """`seen` are the requests that came through, in order."""

    def __init__(self, limits: Limits) -> None:
        self.seen: list[HttpRequest] = []
        self.refusals = KindCounts(RefusalKind)
        self.server = HttpServer(self._handle, limits, self.refusals.add)
        self.port = 0

    def refused(self) -> dict[str, int]:
        """The counters that are not zero."""
        return {kind: number for kind, number in self.refusals.counts.items() if number}

    def _handle(self, request: HttpRequest, responder: Responder) -> None:
        self.seen.append(request)
        body = request.body if isinstance(request.body, bytes) else request.body.joined()
        responder.respond(200, b"text/plain", body)


@asynccontextmanager
async def serving(limits: Limits) -> AsyncIterator[Served]:
    served = Served(limits)
    served.port = await served.server.start("127.0.0.1", 0)
    try:
        yield served
    finally:
        await served.server.stop(0.0)


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, port: int) -> "RawClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer that is not `100 Continue`: status, headers, body. IncompleteReadError at the end."""
        async with asyncio.timeout(WAIT_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(head[0].split()[1])
            if status == 100:
                return await self.answer()
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            return status, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def end(self) -> bytes:
        """Waits for the server to close; what it sent before."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.read()

    def close(self) -> None:
        self.writer.close()
