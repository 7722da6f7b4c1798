"""A client of one connection that can do right and wrong: it sends what it is told, and reads answers strictly.

Strictly: a body that is shorter than it says, a chunk that is not as it says, or a stream that does not end is an
error, never an answer.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any


class WrongAnswerError(Exception):
    """What came is no well-formed answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    first_s: float
    """When the head was there, by the loop's clock."""


class Wire:
    """`kept` says whether the last answer leaves the connection open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.kept = True
        self.used_s = 0.0

    @classmethod
    async def to(cls, host: str, port: int, receive_bytes: int = 0) -> "Wire":
        """`receive_bytes` makes the socket's receive buffer small, for clients that do not read."""
        sock = None
        if receive_bytes:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
            return cls(*await asyncio.open_connection(sock=sock, limit=receive_bytes))
        return cls(*await asyncio.open_connection(host, port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """The next answer, `100 Continue` left out. WrongAnswerError, or what the connection's end raises."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        parts = head[0].split(" ", 2)
        if len(parts) != 3 or parts[0] != "HTTP/1.1" or not parts[1].isdigit():
            raise WrongAnswerError(f"status line {head[0]!r}")
        if parts[1] == "100":
            return await self.answer()
        first_s = asyncio.get_running_loop().time()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        self.kept = headers.get("connection", "") != "close"
        if headers.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        elif "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            raise WrongAnswerError("neither a length nor chunks")
        return Answer(int(parts[1]), headers, body, first_s)

    async def _chunks(self) -> bytes:
        pieces = []
        while True:
            line = await self.reader.readuntil(b"\r\n")
            size = int(line[:-2], 16)
            piece = await self.reader.readexactly(size + 2)
            if piece[-2:] != b"\r\n":
                raise WrongAnswerError("a chunk that does not end where it says")
            if not size:
                return b"".join(pieces)
            pieces.append(piece[:-2])

    def abort(self) -> None:
        """Reset the connection."""
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def wire(host: str, port: int, receive_bytes: int = 0) -> AsyncIterator[Wire]:
    """A connection that is reset at the end, whatever state it is in."""
    opened = await Wire.to(host, port, receive_bytes)
    try:
        yield opened
    finally:
        opened.abort()


def post(path: str, body: Any, headers: str = "") -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n{headers}"
    return f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw
