"""Follows one engine's KV events over ZMQ: SUB for what happens, DEALER for what was missed.

Each connection has a SUB socket of its own, and begins with a replay before any of its messages is heard. So a feed
that starts late learns what the engine still buffers, a restart is noticed although the engine is idle, and messages of
two lives of an engine never stand in one queue. A hole in the numbers asks for a replay too. While one is under way
live messages wait in the SUB socket's queue; what does not fit into it shows as the next hole.

A message that is lost shows with the next one. When there is no next one, the feed asks after a while of silence
whether that was all, and then more and more seldom.

Without a replay address, or while nothing answers there, only the numbers speak: a hole, and every connection but the
first, clears what is believed. As soon as the address answers, everything that the engine buffers is taken in anew.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from vicinal.domain.chance import Stream
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import Event
from vicinal.engines.registry import dialect
from vicinal.gateway.feeds.following import Following
from vicinal.gateway.feeds.replaying import Patience, ReplayQuestion
from vicinal.gateway.feeds.sequence import Step
from vicinal.gateway.feeds.sockets import SocketLimits, new_socket
from vicinal.gateway.traces import trace_of

log = logging.getLogger(__name__)

QUIET_MAX = 64
"""The longest pause between two questions to an engine that stays silent, in `quiet_s`."""

STRANGER_FACTOR = 10.0
"""How much longer a replay is waited for while nothing is believed of the engine."""

PAUSE_S = (0.1, 2.0)
"""Shortest and longest pause before the next connection, when one was lost without a message."""

_ASKED_AT = frozenset({1, 2, 4, 8, 16, 32})
_WATCHED = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED


class KvEventFeed:
    """The feed of one endpoint that has an `events_url`.

    `post` gets the events in order, on the event loop. `context` is shared if given, else the feed has its own.
    `replay_timeout_s` is how long a replay may be silent while live messages wait for it, `replay_s_max` how long it
    may take as a whole. After `quiet_s` without a message the feed asks whether one was missed; pauses are spread by
    `jitter`. `start` raises `zmq.ZMQError` for an address that ZMQ does not understand.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        post: Callable[[Event], None],
        jitter: Stream,
        *,
        context: zmq.asyncio.Context | None = None,
        replay_timeout_s: float = 0.5,
        replay_s_max: float = 30.0,
        quiet_s: float = 1.0,
        limits: SocketLimits | None = None,
        incarnation: int = 0,
    ) -> None:
        if not endpoint.events_url:
            raise ValueError(f"endpoint {endpoint.id} has no events_url to follow")
        decode = dialect(endpoint.dialect).decode_batch
        if decode is None:
            raise ValueError(f"endpoint {endpoint.id}: the dialect {endpoint.dialect} has no KV events to follow")
        self._endpoint = endpoint
        self._following = Following(endpoint.id, post, self._complain, incarnation, decode, endpoint.data_parallel_rank)
        self._jitter = jitter
        self._owns_context = context is None
        self._context = zmq.asyncio.Context() if context is None else context
        self._replay_timeout_s = replay_timeout_s
        self._replay_s_max = replay_s_max
        self._quiet_s = quiet_s
        self._limits = limits or SocketLimits()
        self._patience = Patience(replay_timeout_s)
        self._turn = asyncio.Lock()
        self._messages = 0
        self._complained: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counter[str]:
        """What happened so far, by name (`Following`), besides connections, replay_timeouts and socket_errors."""
        return self._following.counts

    @property
    def incarnation(self) -> int:
        return self._following.incarnation

    async def start(self) -> None:
        """Connect and begin to follow. Returns at once; the engine may come later."""
        self._check_addresses()
        self._task = asyncio.create_task(self._run(), name=f"kv-events-{self._endpoint.id}")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Close everything. Does nothing the second time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._owns_context:
            self._context.destroy(linger=0)

    async def _run(self) -> None:
        """One connection after the other. What is believed of an engine that is gone stays until another one speaks."""
        shortest_s, longest_s = PAUSE_S
        pause_s = shortest_s
        while True:
            heard = self._messages
            try:
                async with self._subscribed() as (sub, monitor):
                    await _told(monitor, zmq.EVENT_HANDSHAKE_SUCCEEDED)
                    self.counts["connections"] += 1
                    await self._follow(sub, monitor)
            except zmq.ZMQError as error:  # the addresses are known to be sound, so there are too many sockets
                self.counts["socket_errors"] += 1
                self._complain("socket_errors", f"{error}: raise the limit of open files")
            pause_s = shortest_s if self._messages > heard else min(longest_s, 2.0 * pause_s)
            await asyncio.sleep(pause_s * self._spread())

    @asynccontextmanager
    async def _subscribed(self) -> AsyncIterator[tuple[zmq.asyncio.Socket, zmq.asyncio.Socket]]:
        sub = new_socket(self._context, zmq.SUB, self._limits)
        monitor = sub.get_monitor_socket(_WATCHED)
        try:
            sub.setsockopt(zmq.SUBSCRIBE, b"")
            sub.connect(self._endpoint.events_url)
            yield sub, monitor
        finally:
            sub.disable_monitor()
            monitor.close(linger=0)
            sub.close(linger=0)

    async def _follow(self, sub: zmq.asyncio.Socket, monitor: zmq.asyncio.Socket) -> None:
        """Until the connection is lost, or a fault in the core ends it."""
        work = [self._listen(sub), _told(monitor, zmq.EVENT_DISCONNECTED)]
        if self._endpoint.replay_url:
            work.append(self._make_sure())
        tasks = [asyncio.create_task(part) for part in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, sub: zmq.asyncio.Socket) -> None:
        async with self._turn:
            self._following.connected()
            if not await self._catch_up():
                self._following.doubt()
        while True:
            frames = await sub.recv_multipart()
            async with self._turn:
                self._messages += 1
                if not self._following.hear(frames):
                    self._following.settle(frames, replayed=await self._catch_up())
            # A message that is ready is returned without a pause, so a long queue would starve the data path.
            await asyncio.sleep(0)

    async def _make_sure(self) -> None:
        """Ask whether something was missed when the engine is silent, and rebuild what an unanswered replay cost."""
        heard, silent = -1, 0
        while True:
            await asyncio.sleep(self._quiet_s * self._spread())
            silent = silent + 1 if self._messages == heard else 0
            heard = self._messages
            due = self._following.incomplete or silent in _ASKED_AT or (silent and not silent % QUIET_MAX)
            if due and self._patience.tries(self._now()):
                await self._ask_aside()

    async def _ask_aside(self) -> None:
        """A replay that holds up live messages only once it is answered."""
        whole = self._following.incomplete  # and so asked for from the start; that may change until there is an answer
        with self._question(self._following.replay_from()) as question:
            try:
                await question.ask()
                frames = await question.answer(self._patience.longest_s)
            except TimeoutError:
                self._unanswered()
                return
            async with self._turn:
                if whole:
                    self._following.rebuild()
                self._following.begin_replay()
                step = await self._take_in(question, frames)
                if step is Step.RESTART:
                    await self._catch_up()

    async def _catch_up(self) -> bool:
        """Replay what is missing, from the start when the engine began anew. True when a replay was complete."""
        if not self._endpoint.replay_url or not self._patience.tries(self._now()):
            return False
        ended = await self._replay()
        if ended is Step.RESTART:
            ended = await self._replay()
        return ended is None

    async def _replay(self) -> Step | None:
        """One replay. None when it was complete, RESTART when it shows a new life, GAP when the engine fell silent."""
        # While nothing is believed no removal waits behind it, and a whole fleet may be asked at once.
        patience_s = self._replay_timeout_s * (1.0 if self._following.believes else STRANGER_FACTOR)
        with self._question(self._following.begin_replay()) as question:
            try:
                await question.ask()
                frames = await question.answer(patience_s)
            except TimeoutError:
                self._following.break_replay()
                self._unanswered()
                return Step.GAP
            return await self._take_in(question, frames)

    async def _take_in(self, question: ReplayQuestion, frames: list[bytes]) -> Step | None:
        """The answer to a question, of which `frames` is the first message; ends like `_replay`."""
        try:
            async with asyncio.timeout(self._replay_s_max):
                while True:
                    step = self._following.replayed(frames)
                    if step is None or step is Step.RESTART:
                        self._patience.answered()
                        return step
                    await asyncio.sleep(0)
                    frames = await question.answer(self._replay_timeout_s)
        except TimeoutError:
            self._following.break_replay()
            self._unanswered()
            return Step.GAP

    def _question(self, start: int) -> ReplayQuestion:
        return ReplayQuestion(self._context, self._endpoint.replay_url, start, self._limits)

    def _unanswered(self) -> None:
        self.counts["replay_timeouts"] += 1
        self._patience.failed(self._now())
        self._complain("replay_timeouts", f"no whole answer at {self._endpoint.replay_url}")

    def _check_addresses(self) -> None:
        """Raise what ZMQ has against an address here, where it can be told, and not in a task."""
        for kind, url in ((zmq.SUB, self._endpoint.events_url), (zmq.DEALER, self._endpoint.replay_url)):
            if url:
                with new_socket(self._context, kind, self._limits) as probe:
                    probe.connect(url)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _spread(self) -> float:
        return 0.9 + 0.2 * self._jitter.random()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the KV event feed of %s ended: %s", self._endpoint.id, trace_of(error))

    def _complain(self, kind: str, text: str) -> None:
        if kind not in self._complained:
            self._complained.add(kind)
            log.warning("KV events of %s: %s: %s (only counted from here on)", self._endpoint.id, kind, text)


async def _told(monitor: zmq.asyncio.Socket, kind: int) -> None:
    """Wait for an event of a socket."""
    while (await recv_monitor_message(monitor))["event"] != kind:
        pass
