"""How much memory an open stream takes: many streams that have begun and then say nothing.

    python -m tests.soak.idle_streams --streams 10000 --relays 2

Starts engines that send one event and wait, `vicinal serve` over them, and opens the streams. Prints what each process
takes per stream, and what an ordinary request takes beside them. Two descriptors per stream are needed in relays, one
here and one in the engines.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop

ENGINES = 16
AT_A_TIME = 100
MODEL = "idle"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
METRICS = b"vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\nvllm:kv_cache_usage_perc 0.0\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Engine(asyncio.Protocol):
    """Opens streams and leaves them so, except for prompts that ask it to end."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.read = b""

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, end, rest = self.read.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0) if end else 0
        if not end or len(rest) < length:
            return
        self.read = b""
        if head.startswith(b"GET"):
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(METRICS) + METRICS)
        elif b"please end" in rest:
            self.transport.write(HEAD + chunked(EVENT + b"data: [DONE]\n\n") + b"0\r\n\r\n")
        else:
            self.transport.write(HEAD + chunked(EVENT))


async def engines() -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Engine, "127.0.0.1", 0, backlog=4096) for _ in range(ENGINES)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.Event().wait()


class Client(asyncio.Protocol):
    """Asks for one stream and notes its first event and its end."""

    transport: asyncio.Transport

    def __init__(self, words: str) -> None:
        body = json.dumps({"model": MODEL, "stream": True, "messages": [{"role": "user", "content": words}]}).encode()
        self.message = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        ) + body
        self.opened = asyncio.get_running_loop().create_future()
        self.ended = False
        self.seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.write(self.message)

    def data_received(self, data: bytes) -> None:
        self.seen = (self.seen + data)[-4096:]
        if not self.opened.done() and b"data: " in self.seen:
            self.opened.set_result(None)
        self.ended |= b"[DONE]" in self.seen

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(f"no stream: {exc} {self.seen!r}"))


def config(ports: list[int], port: int, folder: str, streams: int) -> str:
    text = f"""
[server]
port = {port}
admin_port = {port + 1}
connections_max = {streams + 100}
[model]
name = "{MODEL}"
profile = "llama-3.1-70b-h100-tp8-vllm"
tokens_max = 8192
kv_bytes_per_token = 327680
tokenizer = "tiny"
[record]
directory = "{folder}/record"
"""
    for at, engine in enumerate(ports):
        text += f"""
[[endpoint]]
id = "e{at}"
url = "http://127.0.0.1:{engine}"
kv_tokens = 40000000
sequences_max = {streams}
"""
    return text


def rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def children(pid: int) -> dict[str, int]:
    """Process ids below `pid`, itself included, by what they are."""
    found = {"serve": pid}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rsplit(") ", 1)[1].split()[1]) == pid:
                words = (stat.parent / "cmdline").read_bytes().decode().split("\0")
                found[words[words.index("--name") + 1] if "--name" in words else "core"] = int(stat.parent.name)
    return found


@contextlib.asynccontextmanager
async def started(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def open_streams(port: int, count: int) -> list[Client]:
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    while len(clients) < count:
        some = []
        for _ in range(min(AT_A_TIME, count - len(clients))):
            words = f"{len(clients) + len(some)} " + "tell me a story " * 20
            _, client = await loop.create_connection(lambda words=words: Client(words), "127.0.0.1", port)
            some.append(client)
        await asyncio.gather(*[client.opened for client in some])
        clients += some
        if len(clients) % 1000 == 0:
            print(f"{len(clients)} streams are open", file=sys.stderr, flush=True)
    return clients


async def ordinary(port: int) -> float:
    """Seconds of a request that is answered at once."""
    began = time.monotonic()
    _, client = await asyncio.get_running_loop().create_connection(lambda: Client("please end"), "127.0.0.1", port)
    await client.opened
    while not client.ended:
        await asyncio.sleep(0.0005)
    client.transport.close()
    return time.monotonic() - began


async def measure(streams: int, relays: int, port: int, settle_s: float = 5.0) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with started(sys.executable, "-m", "tests.soak.idle_streams", "--engines") as mock:
            assert mock.stdout is not None
            ports = json.loads(await mock.stdout.readline())
            path = Path(folder) / "fleet.toml"
            path.write_text(config(ports, port, folder, streams))
            command = ["-m", "vicinal.cli.main", "serve", "--config", str(path), "--relays", str(relays)]
            async with started(sys.executable, *command) as serve:
                assert serve.stdout is not None
                for _ in range(2):
                    await serve.stdout.readline()
                await report(streams, port, children(serve.pid), settle_s)


async def report(streams: int, port: int, pids: dict[str, int], settle_s: float) -> None:
    for client in await open_streams(port, min(50, streams)):  # what is made once is there
        client.transport.abort()
    await asyncio.sleep(settle_s)
    alone_s = sorted([await ordinary(port) for _ in range(50)])
    before = {name: rss_bytes(pid) for name, pid in pids.items()}
    began = time.monotonic()
    clients = await open_streams(port, streams)
    took_s = time.monotonic() - began
    await asyncio.sleep(settle_s)
    after = {name: rss_bytes(pid) for name, pid in pids.items()}
    beside_s = sorted([await ordinary(port) for _ in range(50)])
    lost = sum(client.ended for client in clients)
    print(f"{streams} streams opened in {took_s:.1f} s, {lost} of them lost")
    for name, pid in sorted(pids.items()):
        grown = after[name] - before[name]
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        print(f"{name}: {before[name] / 1e6:.0f} to {after[name] / 1e6:.0f} MB, {descriptors} descriptors")
        print(f"{name}: {grown / streams / 1024:.1f} KiB per stream of all")
    total = sum(after.values()) - sum(before.values())
    print(f"all processes: {total / streams / 1024:.1f} KiB per stream")
    print(f"an ordinary request: median {alone_s[25] * 1e3:.1f} ms before, {beside_s[25] * 1e3:.1f} ms beside them")
    for client in clients:
        client.transport.abort()
    await asyncio.sleep(2 * settle_s)
    for name, pid in sorted(pids.items()):
        print(f"{name}: {rss_bytes(pid) / 1e6:.0f} MB, {len(list(Path(f'/proc/{pid}/fd').iterdir()))} descriptors left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--relays", type=int, default=2)
    parser.add_argument("--port", type=int, default=11_500, help="of the API; the next one is the admin address")
    parser.add_argument("--engines", action="store_true", help="be the engines")
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if not given.engines and hard < given.streams + 200:
        sys.exit(f"{given.streams} streams need as many descriptors here, and the system allows {hard}: raise it")
    work = engines() if given.engines else measure(given.streams, given.relays, given.port)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(work)


if __name__ == "__main__":
    main()
