"""Mock engines for `tests.soak.isolation`: they read bodies of any size at little cost, and stream at a steady pace.

    python -m tests.soak.isolation_engine COUNT

It prints its ports as JSON and stops when its standard input closes. A request whose `traceparent` is `flood` is
answered with as many bytes as its client takes, all others with `CHUNKS` chunks, one every `STEP_S`.
"""

import asyncio
import json
import sys
from typing import cast

import uvloop

CHUNKS = 25
STEP_S = 0.02
_FLOOD_CHUNKS = 4000

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_METRICS = (
    b'vllm:num_requests_running{engine="0",model_name="m"} 0.0\n'
    b'vllm:num_requests_waiting{engine="0",model_name="m"} 0.0\n'
    b'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.1\n'
    b'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100000"} 1.0\n'
)
_USAGE = {"prompt_tokens": 20, "completion_tokens": CHUNKS}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(text: str, usage: object = None) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": None}
    told = {"id": "c", "object": "text_completion", "choices": [choice], "usage": usage}
    return _chunk(b"data: " + json.dumps(told).encode() + b"\n\n")


_TOKEN, _LAST = _event("token"), _event("", _USAGE) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
_LARGE = _event("x" * 16_000)


class Engine(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._head = b""
        self._missing = 0
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            self._head = head
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            self._missing = int(length[0].partition(b":")[2]) - len(rest) if length else 0
        if self._missing == 0:
            head, self._head = self._head, b""
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        if head.startswith(b"GET"):
            body = _METRICS if head.startswith(b"GET /metrics") else b"{}"
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        else:
            self._task = asyncio.ensure_future(self._stream(flood=b"traceparent: flood" in head))

    async def _stream(self, *, flood: bool) -> None:
        loop = asyncio.get_running_loop()
        self._transport.write(_HEAD + _TOKEN)
        began_s = loop.time()
        for step in range(_FLOOD_CHUNKS if flood else CHUNKS - 1):
            await self._writable.wait()
            if not flood:
                await asyncio.sleep(began_s + (step + 1) * STEP_S - loop.time())
            self._transport.write(_LARGE if flood else _TOKEN)
        self._transport.write(_LAST)


async def main(count: int) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Engine, "127.0.0.1", 0) for _ in range(count)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
