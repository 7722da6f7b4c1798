"""An engine over real ZMQ sockets whose news may be lost, doubled, out of order, and whose replays may be anything."""

import asyncio
import random
from collections import deque
from contextlib import suppress

import msgspec
import zmq
import zmq.asyncio

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored, Event
from vicinal.domain.ids import EngineHash

END = b"\xff" * 8
TOPIC = b"kv-events"


class MisbehavingEngine:
    """A cache of which every change is a batch. `manner` is how replays are answered.

    `drop`, `double` and `delay` are chances per live message; a delayed one is sent after the next. `wait_s` is how
    long a "late" answer takes.
    """

    def __init__(self, seed: int = 0, *, drop: float = 0.0, double: float = 0.0, delay: float = 0.0) -> None:
        self.chance = random.Random(seed)
        self.drop, self.double, self.delay = drop, double, delay
        self.manner = "well"
        self.wait_s = 0.2
        self.questions = 0
        self.sent = 0
        self.held: set[EngineHash] = set()
        self.next = 0
        self.buffer: deque[tuple[int, bytes]] = deque(maxlen=10_000)
        self._stamp = 0
        self._late: list[list[bytes]] = []
        self.events_url = self.replay_url = ""

    async def start(self) -> None:
        """Listen, at the same addresses as before where there were some."""
        self._context = zmq.asyncio.Context()
        async with asyncio.timeout(10):
            while True:  # ZMQ gives a port back from its own thread, a moment after close
                try:
                    self._pub = self._bound(zmq.PUB, self.events_url)
                    self._router = self._bound(zmq.ROUTER, self.replay_url)
                    break
                except zmq.ZMQError:
                    await asyncio.sleep(0.01)
        self.events_url = self._pub.getsockopt_string(zmq.LAST_ENDPOINT)
        self.replay_url = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._service = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        self._service.cancel()
        with suppress(asyncio.CancelledError):
            await self._service
        self._context.destroy(linger=0)

    async def reborn(self, first_number: int = 0) -> None:
        """Another process at the same addresses, empty, that has published `first_number` batches that nobody heard."""
        await self.stop()
        self.forget()
        for _ in range(first_number):
            self.change(5)
        await self.start()

    def forget(self) -> None:
        """The new process's memory, behind sockets that stay (as a forwarder's do)."""
        self.held.clear()
        self.buffer.clear()
        self._late.clear()
        self.next = 0

    def change(self, blocks: int = 5) -> list[bytes]:
        """One batch: some of the blocks go, others come."""
        names = range(200)
        gone = self.chance.sample(sorted(self.held), min(len(self.held), self.chance.randrange(blocks)))
        came = [h for h in self.chance.sample(names, blocks) if h not in self.held]
        events: list[object] = [{"type": "BlockRemoved", "block_hashes": [h], "medium": "GPU"} for h in gone]
        events += [
            {"type": "BlockStored", "block_hashes": [h], "parent_block_hash": None, "token_ids": [h], "block_size": 1}
            for h in came
        ]
        self.held = (self.held - set(gone)) | set(came)
        self._stamp += 1
        payload = msgspec.msgpack.encode([float(self._stamp), events, 0])
        self.buffer.append((self.next, payload))
        self.next += 1
        return [TOPIC, (self.next - 1).to_bytes(8, "big"), payload]

    async def publish(self, *, sure: bool = False) -> None:
        frames = self.change()
        if sure:
            await self._send(frames)
            return
        if self.chance.random() < self.drop:
            return
        if self.chance.random() < self.delay:
            self._late.append(frames)
            return
        await self._send(frames)
        if self.chance.random() < self.double:
            await self._send(frames)
        for late in self._late:
            await self._send(late)
        self._late.clear()

    async def send(self, frames: list[bytes]) -> None:
        await self._send(frames)

    async def _send(self, frames: list[bytes]) -> None:
        self.sent += 1
        await self._pub.send_multipart(frames)

    def _bound(self, kind: int, url: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        try:
            socket.bind(url or "tcp://127.0.0.1:*")
        except zmq.ZMQError:
            socket.close(linger=0)
            raise
        return socket

    async def _serve(self) -> None:
        while True:
            client, _, start = await self._router.recv_multipart()
            self.questions += 1
            await self._answer(client, int.from_bytes(start, "big"))

    async def _answer(self, client: bytes, start: int) -> None:
        answer = [[TOPIC, n.to_bytes(8, "big"), payload] for n, payload in self.buffer if n >= start]
        match self.manner:
            case "never":
                return
            case "late":
                await asyncio.sleep(self.wait_s)
            case "partly":
                answer = answer[: len(answer) // 2]
            case "garbage":
                answer = [[b"x"], [TOPIC, b"short", b""], [TOPIC, b"\0" * 8, b"\xc1"], [b"", b"", b"", b""]]
            case "holes":
                answer = [frames for frames in answer if self.chance.random() < 0.5]
        for frames in answer:
            await self._router.send_multipart([client, b"", *frames])
        if self.manner not in ("partly", "garbage"):
            await self._router.send_multipart([client, b"", b"", END, b""])


class Belief:
    """What a reader of a feed's events believes."""

    def __init__(self) -> None:
        self.held: set[EngineHash] = set()
        self.cleared: list[BlocksCleared] = []

    def post(self, event: Event) -> None:
        match event:
            case BlocksStored():
                self.held |= set(event.hashes)
            case BlocksRemoved():
                self.held -= set(event.hashes)
            case BlocksCleared():
                self.held.clear()
                self.cleared.append(event)
