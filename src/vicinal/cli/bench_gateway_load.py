"""The load generator of `vicinal bench gateway`: a process of its own, with as little work per answer as possible.

A closed loop keeps `connections` requests under way; an open loop sends at moments of a Poisson process, on as many
connections as it takes. Every answer is checked: its status and its number of tokens.

    python -m vicinal.cli.bench_gateway_load JOB

JOB is `Job` as JSON. It prints a line when the measured time begins, and `Measured` as JSON when it is over.
"""

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import cast

import msgspec
import numpy as np

from vicinal.cli.bench_gateway_answers import AnswerReader, Measured, Samples
from vicinal.cli.bench_gateway_engines import HOST
from vicinal.cli.bench_gateway_prompts import ChatRequests
from vicinal.cli.loop import run

UNDER_WAY_MAX = 1000
"""Of an open loop. Where so many wait for an answer, router, engines or load are too slow: no more are sent."""


class Job(msgspec.Struct, frozen=True):
    """`rate` is in requests/s; without, the loop is closed. Connections go to the `ports` in turn."""

    ports: list[int]
    streamed: bool
    prompt_tokens: int
    chunks: int
    groups: int
    connections: int
    warm_s: float
    seconds: float
    rate: float | None = None
    seed: int = 0


class LoadConnection(asyncio.Protocol):
    """One request at a time. `free` is called when its answer is whole, `lost` when the connection has ended, with
    whether an answer was lost with it."""

    _transport: asyncio.Transport

    def __init__(
        self,
        samples: Samples,
        free: Callable[["LoadConnection"], None],
        lost: Callable[["LoadConnection", bool], None],
    ) -> None:
        self._samples = samples
        self._free = free
        self._lost = lost
        self._answer: AnswerReader | None = None
        self._sent_ns = 0
        self._first_ns = 0

    @property
    def usable(self) -> bool:
        return not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, message: bytes) -> None:
        self._answer = AnswerReader()
        self._first_ns = 0
        self._sent_ns = time.monotonic_ns()
        self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        answer = self._answer
        if answer is None:
            self._transport.abort()
            return
        self._first_ns = self._first_ns or now_ns
        self._samples.came(data, now_ns)
        if answer.feed(data):
            self._answer = None
            self._samples.ended(answer, now_ns - self._sent_ns, self._first_ns - self._sent_ns)
            self._free(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._lost(self, self._answer is not None)


class Load:
    """The job under way."""

    def __init__(self, job: Job) -> None:
        self.samples = Samples(job.chunks, streamed=job.streamed)
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._requests = ChatRequests(job.prompt_tokens, job.chunks, job.groups, streamed=job.streamed, seed=job.seed)
        self._gaps = np.random.default_rng(job.seed)
        self._idle: deque[LoadConnection] = deque()
        self._under_way = 0
        self._opened = 0
        self._next_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    async def run(self) -> Measured:
        """Warm up, say that the measured time begins, measure."""
        if self._job.rate is None:
            for _ in range(self._job.connections):
                self._open()
        else:
            self._next_s = self._loop.time()
            self._send_due()
        await asyncio.sleep(self._job.warm_s)
        print("measuring", flush=True)
        started_s = time.monotonic()
        self.samples.on = True
        await asyncio.sleep(self._job.seconds)
        self.samples.on = False
        self._over = True
        return self.samples.measured(time.monotonic() - started_s)

    def _send_due(self) -> None:
        """Send what is due by now, then sleep until the next."""
        rate = self._job.rate
        assert rate is not None
        while self._next_s <= self._loop.time() and not self._over:
            self._next_s += self._gaps.exponential(1.0 / rate)
            if self._under_way >= UNDER_WAY_MAX:
                self.samples.not_sent()
            elif self._idle:
                self._send(self._idle.popleft())
            else:
                self._open()
        if not self._over:
            self._loop.call_at(self._next_s, self._send_due)

    def _open(self) -> None:
        self._under_way += 1
        port = self._job.ports[self._opened % len(self._job.ports)]
        self._opened += 1
        task = self._loop.create_task(self._connect(port))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, port: int) -> None:
        try:
            _, connection = await self._loop.create_connection(
                lambda: LoadConnection(self.samples, self._free, self._lost), HOST, port
            )
        except OSError:
            self._under_way -= 1
            self.samples.broke()
            return
        connection.send(self._requests.message())

    def _send(self, connection: LoadConnection) -> None:
        if not connection.usable:
            self._open()
            return
        self._under_way += 1
        connection.send(self._requests.message())

    def _free(self, connection: LoadConnection) -> None:
        self._under_way -= 1
        if self._over:
            return
        if self._job.rate is None:
            self._send(connection)
        else:
            self._idle.append(connection)

    def _lost(self, connection: LoadConnection, answer_too: bool) -> None:
        if not answer_too:
            with contextlib.suppress(ValueError):
                self._idle.remove(connection)
            return
        self.samples.broke()
        self._under_way -= 1
        if self._job.rate is None and not self._over:
            self._loop.call_later(0.05, self._open)


async def _run(job: Job) -> None:
    print(msgspec.json.encode(await Load(job).run()).decode(), flush=True)


if __name__ == "__main__":
    run(_run(msgspec.json.decode(sys.argv[1], type=Job)))
