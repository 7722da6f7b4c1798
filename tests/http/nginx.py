"""nginx as the other reader of the same bytes: a reverse proxy before a recording backend, on free ports."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.ports import free_port

PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

_CONFIG = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  client_max_body_size 4096; client_header_buffer_size 2048; large_client_header_buffers 1 2048;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{backend}; proxy_http_version 1.1; }}
  }}
}}
"""


@dataclass(slots=True)
class Nginx:
    """`passed` are the requests that came through to the backend: first line and body."""

    port: int
    passed: list[tuple[bytes, bytes]] = field(default_factory=list)


@asynccontextmanager
async def nginx(folder: Path) -> AsyncIterator[Nginx]:
    assert PROGRAM is not None
    port = free_port()
    running = Nginx(port)
    server = await asyncio.start_server(lambda r, w: _record(running, r, w), "127.0.0.1", 0)
    backend = server.sockets[0].getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(_CONFIG.format(folder=folder, port=port, backend=backend))
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "-e",
        str(folder / "error.log"),
        "-p",
        str(folder),
        "-c",
        str(config),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(20.0):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None, (folder / "error.log").read_text()
                    await asyncio.sleep(0.02)
                    continue
                writer.close()
                break
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        server.close()


async def _record(running: Nginx, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """nginx sends well-formed requests: lengths are all that must be understood."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            body = await reader.readexactly(length)
            running.passed.append((head.split(b"\r\n")[0], body))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    except (EOFError, OSError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def statuses(port: int, sent: bytes, expected: int) -> list[int]:
    """What is answered to `sent`, until nothing comes any more: the statuses, 100 left out; at most one more than
    `expected` is waited for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found: list[int] = []
    try:
        writer.write(sent)
        while True:
            wait_s = 2.0 if len(found) < expected else 0.15
            async with asyncio.timeout(wait_s):
                head = await reader.readuntil(b"\r\n\r\n")
                status = int(head.split(b" ", 2)[1])
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        await reader.readexactly(int(line.partition(b":")[2]))
                if status != 100:
                    found.append(status)
    except (TimeoutError, EOFError, OSError, IndexError, ValueError):
        pass
    finally:
        writer.transport.abort()
    return found
