"""The mock engines of `vicinal bench gateway`: one process, a port for each, answers that cost next to nothing.

Each has a prefix cache of the shared halves that it has seen, and says of each request what it reused, as vLLM does. A
streamed answer is one token per step, each written by itself with the moment of its step in `system_fingerprint`; all
streams make their steps together, as those of one batch do.

    python -m vicinal.cli.bench_gateway_engines SPEC

SPEC is `EngineSpec` as JSON. It prints its ports as JSON, and stops when its standard input closes.
"""

import asyncio
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import httptools
import msgspec

import vicinal
from vicinal.cli.bench_gateway_prompts import MODEL
from vicinal.cli.loop import run
from vicinal.tokenizer.tokenizer import Tokenizer

HOST = "127.0.0.1"
STAMP = b"%020d"
"""Nanoseconds of the monotonic clock, which processes of one machine share."""

PAGES = {
    b"/health": b"{}",
    b"/v1/models": b'{"object":"list","data":[{"id":"bench","object":"model","owned_by":"vllm"}]}',
    b"/get_model_info": b'{"model_path":"bench","tokenizer_path":"bench","is_generation":true}',
    b"/get_server_info": b'{"model_path":"bench","served_model_name":"bench"}',
    b"/server_info": b'{"model_path":"bench","served_model_name":"bench"}',
    b"/metrics": b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="bench"} 0.0
vllm:num_requests_waiting{engine="0",model_name="bench"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="bench"} 0.1
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="75000"} 1.0
""",
}
_TOKEN = b" token"
_SHARED_FROM = b'"content":"'
_SHARED_BYTES = 64
"""So much of a shared half tells it from others."""


class EngineSpec(msgspec.Struct, frozen=True):
    """`prompt_tokens` and `shared_tokens` are those of every request that will come."""

    engines: int
    prompt_tokens: int
    shared_tokens: int
    chunks: int
    step_s: float


class Answers:
    """What engines say, ready but for stamps."""

    def __init__(self, spec: EngineSpec) -> None:
        self._tokens = spec.chunks
        known = b'"id":"chatcmpl-bench","created":1700000000,"model":"%b","system_fingerprint":"' % MODEL.encode()
        self._event = b'data: {"object":"chat.completion.chunk",%b' % known
        self._delta = b'","choices":[{"index":0,"delta":{"content":"%b"},"logprobs":null,"finish_reason":%b}]}\n\n'
        self._whole = b'{"object":"chat.completion",%b' % known
        self._message = (
            b'","choices":[{"index":0,"message":{"role":"assistant","content":"%b"},"logprobs":null,'
            b'"finish_reason":"length"}],"usage":%b}'
        )
        self._usage = {
            cached: msgspec.json.encode(_usage(spec, spec.shared_tokens // 16 * 16 if cached else 0))
            for cached in (False, True)
        }

    def whole(self, cached: bool) -> bytes:
        return self._whole + _stamp() + self._message % (_TOKEN * self._tokens, self._usage[cached])

    def token(self) -> bytes:
        return _chunk(self._event + _stamp() + self._delta % (_TOKEN, b"null"))

    def last_token(self, cached: bool) -> bytes:
        """With the usage, `[DONE]` and the end of the body."""
        stamped = self._event + _stamp()
        usage = stamped + b'","choices":[],"usage":%b}\n\n' % self._usage[cached]
        return _chunk(stamped + self._delta % (_TOKEN, b'"length"') + usage + b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Streams:
    """All streams under way, and their steps."""

    def __init__(self, spec: EngineSpec, answers: Answers, loop: asyncio.AbstractEventLoop) -> None:
        self._spec = spec
        self._answers = answers
        self._loop = loop
        self._left: dict[MockConnection, int] = {}
        self._next_s = 0.0

    def open(self, connection: "MockConnection") -> None:
        """The first token at once, the others step by step."""
        connection.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        if self._spec.chunks == 1:
            connection.write(self._answers.last_token(connection.cached))
            return
        connection.write(self._answers.token())
        self._left[connection] = self._spec.chunks - 1
        if len(self._left) == 1:
            self._next_s = self._loop.time()
            self._arm()

    def forget(self, connection: "MockConnection") -> None:
        self._left.pop(connection, None)

    def _step(self) -> None:
        token, ended = self._answers.token(), []
        for connection, left in self._left.items():
            if left > 1:
                connection.write(token)
                self._left[connection] = left - 1
            else:
                ended.append(connection)
        for connection in ended:
            del self._left[connection]
            connection.write(self._answers.last_token(connection.cached))
        if self._left:
            self._arm()

    def _arm(self) -> None:
        if self._spec.step_s:
            self._next_s = max(self._loop.time(), self._next_s + self._spec.step_s)
            self._loop.call_at(self._next_s, self._step)
        else:
            self._loop.call_soon(self._step)


class Tokens:
    """What vLLM answers to those who ask how it tokenises: some routers do so for every prompt."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.load(Path(vicinal.__file__).parent / "data" / "tiny-model")

    def answer(self, body: bytes) -> bytes:
        """Of /tokenize and of /v1/chat/completions/render, in one."""
        asked: dict[str, Any] = msgspec.json.decode(body)
        if "messages" in asked:
            opens, arguments = asked.get("add_generation_prompt", True), asked.get("chat_template_kwargs")
            ids = self._tokenizer.encode_chat(asked["messages"], asked.get("tools"), opens, arguments)
        else:
            ids = self._tokenizer.encode(asked["prompt"], add_special_tokens=asked.get("add_special_tokens", True))
        said = {"count": len(ids), "max_model_len": 131_072, "tokens": ids, "token_ids": ids, "request_id": "bench"}
        return msgspec.json.encode(said | {"model": MODEL, "sampling_params": {}})


class MockConnection(asyncio.Protocol):
    """One connection to one engine, whose prefix cache is `seen`."""

    _transport: asyncio.Transport

    def __init__(self, seen: set[bytes], answers: Answers, streams: Streams, tokens: Tokens) -> None:
        self.cached = False
        self._seen = seen
        self._answers = answers
        self._streams = streams
        self._tokens = tokens
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.write = self._transport.write

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):  # a router tries HTTP/2: as vLLM answers it
            self._respond(b"Invalid HTTP request received.", b"text/plain", b"400 Bad Request")
            self._transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._streams.forget(self)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        path, body = self._url, b"".join(self._body)
        self._url, self._body = b"", []
        if path == b"/v1/chat/completions":
            at = body.find(_SHARED_FROM)
            key = body[at : at + _SHARED_BYTES]
            self.cached = key in self._seen
            self._seen.add(key)
            if b'"stream":true' in body:
                self._streams.open(self)
            else:
                self._respond(self._answers.whole(self.cached))
        elif path in (b"/tokenize", b"/v1/chat/completions/render"):
            self._respond(self._tokens.answer(body))
        elif path in PAGES:
            self._respond(PAGES[path], b"text/plain" if path == b"/metrics" else b"application/json")
        else:
            self._respond(b'{"error":{"message":"no such route"}}', status=b"404 Not Found")

    def _respond(self, body: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK") -> None:
        self.write(b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, kind, len(body), body))


def _stamp() -> bytes:
    return STAMP % time.monotonic_ns()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _usage(spec: EngineSpec, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": spec.prompt_tokens,
        "completion_tokens": spec.chunks,
        "total_tokens": spec.prompt_tokens + spec.chunks,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


async def _serve(spec: EngineSpec) -> None:
    loop = asyncio.get_running_loop()
    answers = Answers(spec)
    streams = Streams(spec, answers, loop)
    tokens = Tokens()
    ports = []
    for _ in range(spec.engines):
        engine = partial(MockConnection, set(), answers, streams, tokens)
        listener = await loop.create_server(engine, HOST, 0)
        ports.append(listener.sockets[0].getsockname()[1])
    print(msgspec.json.encode(ports).decode(), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    run(_serve(msgspec.json.decode(sys.argv[1], type=EngineSpec)))
