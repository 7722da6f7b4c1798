"""A relay's end of its link to the core: it connects, and connects again, for as long as the relay lives."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from vicinal.domain.effects import Answer, Cancel, Dispatch
from vicinal.domain.endpoint import Endpoint
from vicinal.gateway.backoff import doubled
from vicinal.gateway.links.limits import BEAT_S, RETRY_S_MAX, RETRY_S_MIN, SILENCE_S, UNREAD_BYTES_MAX
from vicinal.gateway.links.submissions import Submissions, UpEvent
from vicinal.gateway.traces import trace_of
from vicinal.wire.messages import Beat, ByText, Counts, Down, Fleet, FrameError, FrameReader, Hello, Taken, Up, frame

log = logging.getLogger("vicinal")


@dataclass(frozen=True, slots=True)
class RelaySide:
    """What the link needs of the relay's process."""

    fleet_is: Callable[[tuple[Endpoint, ...]], None]
    matched_by_text: Callable[[tuple[ByText, ...]], None]
    counts: Callable[[], Mapping[str, Mapping[str, int]]]


class CoreConnection:
    """`unready` says why no request should come now, "" while they may."""

    def __init__(self, path: Path, hello: Hello, submissions: Submissions, relay: RelaySide) -> None:
        self.unready = "the scheduler is away"
        self._path = path
        self._hello = hello
        self._submissions = submissions
        self._relay = relay
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="core-link")
        self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """Leave the core. What is open then is lost to it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        failures = 0
        while True:
            self._submissions.expire()
            try:
                _, link = await self._loop.create_unix_connection(lambda: _Link(self._heard), str(self._path))
            except OSError:
                await asyncio.sleep(doubled(RETRY_S_MIN, failures, RETRY_S_MAX))
                failures += 1
                continue
            failures = 0
            try:
                await self._follow(link)
            finally:
                link.abort()
                self.unready = "the scheduler is away"
            if link.greeted:
                log.warning("%s lost the scheduler (%s); what runs goes on", self._hello.relay, link.ended)
            self._submissions.core_went()

    async def _follow(self, link: "_Link") -> None:
        """Until the link ends. The core is there once it has told its fleet."""
        link.send(self._hello, 0)
        while not link.over.is_set():
            self._submissions.expire()
            link.send(Counts({metric: dict(kinds) for metric, kinds in self._relay.counts().items()}), 0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await link.over.wait()
            if self._loop.time() - link.heard_s > SILENCE_S:
                link.end(f"silent for {SILENCE_S:g} s")

    def _heard(self, link: "_Link", number: int, message: Down) -> None:
        match message:
            case Dispatch() | Cancel() | Answer():
                self._submissions.heard(number, message)
            case Taken():
                self._submissions.taken(number)
            case Beat(unready, by_text):
                self.unready = unready
                self._relay.matched_by_text(by_text)
            case Fleet(endpoints):
                self._relay.fleet_is(endpoints)
                if not link.greeted:
                    link.greeted = True
                    self._submissions.core_came(link.send)


class _Link(asyncio.Protocol):
    """One connection to a core."""

    def __init__(self, heard: Callable[["_Link", int, Down], None]) -> None:
        self.over = asyncio.Event()
        self.ended = ""
        self.greeted = False
        self._loop = asyncio.get_running_loop()
        self.heard_s = self._loop.time()
        self._heard = heard
        self._frames = FrameReader()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard_s = self._loop.time()
        try:
            for number, message in self._frames.feed(data):
                self._heard(self, number, cast("Down", message))
        except FrameError as error:
            self.end(f"what it says cannot be read: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(str(exc or "it closed the connection"))

    def send(self, message: Up | UpEvent, number: int) -> None:
        if self.over.is_set():
            return
        self._transport.write(frame(message, number))
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.end(f"it left {UNREAD_BYTES_MAX} bytes unread")

    def end(self, reason: str) -> None:
        if not self.over.is_set():
            self.ended = reason
            self.over.set()
            self._transport.abort()

    def abort(self) -> None:
        self.end("the relay stops")


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the link to the scheduler ended: %s", trace_of(error))
