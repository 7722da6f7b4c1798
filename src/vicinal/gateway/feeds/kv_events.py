"""Follows one engine's KV events over ZMQ: SUB for what happens, DEALER for what was missed.

At every connection, the first included, the feed asks for a replay: that is how a feed that starts late learns what
the engine still buffers, and how a restart is noticed although the engine is idle. A hole in the numbers asks for a
replay too. While one is under way live messages wait in the SUB socket's queue; what does not fit into it shows as the
next hole. Connections, reconnections and heartbeats are ZMQ's.

Without a replay address, or when nothing answers there, only the numbers speak: a hole clears what is believed, and a
restart is noticed with the first number that goes back.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import Event
from vicinal.engines.registry import dialect
from vicinal.gateway.feeds.following import Following
from vicinal.gateway.feeds.sequence import Step

log = logging.getLogger(__name__)


class KvEventFeed:
    """The feed of one endpoint that has an `events_url`.

    `post` gets the events in order, on the event loop. `context` is shared if given, else the feed has its own.
    `replay_timeout_s` is how long a replay may be silent; `waiting_messages_max` bounds live messages that wait, and
    `batch_bytes_max` one message. `start` raises `zmq.ZMQError` for an address that ZMQ does not understand.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        post: Callable[[Event], None],
        *,
        context: zmq.asyncio.Context | None = None,
        replay_timeout_s: float = 5.0,
        waiting_messages_max: int = 10_000,
        batch_bytes_max: int = 64 << 20,
        incarnation: int = 0,
    ) -> None:
        if not endpoint.events_url:
            raise ValueError(f"endpoint {endpoint.id} has no events_url to follow")
        decode = dialect(endpoint.dialect).decode_batch
        if decode is None:
            raise ValueError(f"endpoint {endpoint.id}: the dialect {endpoint.dialect} has no KV events to follow")
        self._endpoint = endpoint
        self._following = Following(endpoint.id, post, self._complain, incarnation, decode, endpoint.data_parallel_rank)
        self._owns_context = context is None
        self._context = zmq.asyncio.Context() if context is None else context
        self._replay_timeout_s = replay_timeout_s
        self._waiting_messages_max = waiting_messages_max
        self._batch_bytes_max = batch_bytes_max
        self._turn = asyncio.Lock()
        self._complained: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._sub: zmq.asyncio.Socket | None = None
        self._monitor: zmq.asyncio.Socket | None = None

    @property
    def counts(self) -> Counter[str]:
        """What happened so far, by name (`Following`), besides connections and replay_timeouts."""
        return self._following.counts

    @property
    def incarnation(self) -> int:
        return self._following.incarnation

    async def start(self) -> None:
        """Connect and begin to follow. Returns at once; the engine may come later."""
        self._sub = sub = self._socket(zmq.SUB)
        sub.setsockopt(zmq.RCVHWM, self._waiting_messages_max)
        sub.setsockopt(zmq.SUBSCRIBE, b"")
        self._monitor = monitor = sub.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        sub.connect(self._endpoint.events_url)
        self._run(self._listen(sub), "listen")
        self._run(self._watch(monitor), "watch")

    async def stop(self) -> None:
        """Close everything. Does nothing the second time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._sub is not None:
            self._sub.disable_monitor()
            self._sub.close(linger=0)
            self._sub = None
        if self._monitor is not None:
            self._monitor.close(linger=0)
            self._monitor = None
        if self._owns_context:
            self._context.destroy(linger=0)

    async def _listen(self, sub: zmq.asyncio.Socket) -> None:
        while True:
            frames = await sub.recv_multipart()
            async with self._turn:
                if not self._following.hear(frames):
                    self._following.settle(frames, replayed=await self._catch_up())
            # A message that is ready is returned without a pause, so a long queue would starve the data path.
            await asyncio.sleep(0)

    async def _watch(self, monitor: zmq.asyncio.Socket) -> None:
        while True:
            await recv_monitor_message(monitor)
            self.counts["connections"] += 1
            async with self._turn:
                await self._catch_up()

    async def _catch_up(self) -> bool:
        """Replay what is missing, from the start when the engine began anew. True when a replay was complete."""
        if not self._endpoint.replay_url:
            return False
        ended = await self._replay()
        if ended is Step.RESTART:
            ended = await self._replay()
        return ended is None

    async def _replay(self) -> Step | None:
        """One replay. None when it was complete, RESTART when it shows a new life, GAP when the engine fell silent."""
        dealer = self._socket(zmq.DEALER)
        try:
            # ZMQ drops what does not fit into a peer's queue; the engine's own buffer bounds this one.
            dealer.setsockopt(zmq.RCVHWM, 0)
            dealer.connect(self._endpoint.replay_url)
            start = self._following.begin_replay()
            await dealer.send_multipart([b"", start.to_bytes(8, "big")])
            while True:
                frames = await asyncio.wait_for(dealer.recv_multipart(), self._replay_timeout_s)
                step = self._following.replayed(frames)
                if step is None or step is Step.RESTART:
                    return step
                await asyncio.sleep(0)
        except TimeoutError:
            self._following.break_replay()
            self.counts["replay_timeouts"] += 1
            self._complain("replay_timeouts", f"no answer at {self._endpoint.replay_url}")
            return Step.GAP
        finally:
            dealer.close(linger=0)

    def _socket(self, kind: int) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, self._batch_bytes_max)
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2_000)
        socket.setsockopt(zmq.HEARTBEAT_IVL, 5_000)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15_000)
        return socket

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"kv-events-{name}-{self._endpoint.id}")
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        with suppress(asyncio.CancelledError):
            if (error := task.exception()) is not None:
                log.error("the KV event feed of %s ended", self._endpoint.id, exc_info=error)

    def _complain(self, kind: str, text: str) -> None:
        if kind not in self._complained:
            self._complained.add(kind)
            log.warning("KV events of %s: %s: %s (only counted from here on)", self._endpoint.id, kind, text)
