"""The core's end of the links to its relays.

Whose request it is decides where an effect goes. A relay whose connection ends has lost its clients and its engine
connections with it: the core is told of each of its requests. One that is silent or does not read is cut off likewise;
it comes back and submits what is still open there anew.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from vicinal.domain.effects import Answer
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import (
    ClientGone,
    Event,
    FirstToken,
    LegFailed,
    PrefillDone,
    RelayLost,
    RequestArrived,
    RequestFinished,
)
from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.gateway.link import RelayEffect
from vicinal.gateway.links.limits import BEAT_S, SILENCE_S, UNREAD_BYTES_MAX
from vicinal.gateway.traces import trace_of
from vicinal.wire.messages import Beat, Counts, Down, Fleet, FrameError, FrameReader, Hello, Taken, Up, frame

log = logging.getLogger("vicinal")


@dataclass(frozen=True, slots=True)
class CoreSide:
    """What the links need of the core's process. `counted` hears each relay's new totals after they were added."""

    post: Callable[[Event], None]
    fleet: Callable[[], tuple[Endpoint, ...]]
    beat: Callable[[], Beat]
    version: str
    counted: Callable[[], None] = lambda: None


class RelayLinks:
    """Listens for relays. Effects for a request of none of them go to `elsewhere`."""

    def __init__(self, core: CoreSide, elsewhere: Callable[[RelayEffect], None]) -> None:
        self.counts = Counter(connected=0, lost=0, orphaned=0, renamed=0, unreadable=0, defects=0)
        self._core = core
        self._elsewhere = elsewhere
        self._loop = asyncio.get_running_loop()
        self._links: dict[str, _Link] = {}
        self._owners: dict[RequestId, tuple[_Link, int]] = {}
        self._past: Counter[tuple[str, str]] = Counter()
        self._server: asyncio.Server | None = None
        self._beat: asyncio.TimerHandle | None = None

    async def start(self, path: Path) -> None:
        """Listen at a Unix socket. Raises OSError."""
        self._server = await self._loop.create_unix_server(lambda: _Link(self, self._core.version), str(path))
        self._tick()

    async def stop(self) -> None:
        """Close all links. What their relays carry goes on there."""
        if self._beat is not None:
            self._beat.cancel()
        if self._server is not None:
            self._server.close()
        for link in list(self._links.values()):
            link.close()

    def perform(self, effect: RelayEffect) -> None:
        """Send an effect to the relay that carries its request."""
        owner = self._owners.get(effect.request_id)
        if owner is None:
            self._elsewhere(effect)
        else:
            link, number = owner
            link.send(effect, number)

    def over(self, request_id: RequestId) -> None:
        """The core is done with the request."""
        self._owners.pop(request_id, None)

    def fleet_changed(self) -> None:
        """To be told before the core, so that no relay is sent to an endpoint that it does not know."""
        for link in self._links.values():
            link.send(Fleet(self._core.fleet()))

    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """What all relays have counted since this core's start, also those that are gone, by metric and kind."""
        added = self._past.copy()
        for link in self._links.values():
            added.update(link.totals)
        shaped: dict[str, dict[str, int]] = {}
        for (metric, kind), number in added.items():
            shaped.setdefault(metric, {})[kind] = number
        return shaped

    def shown(self) -> Iterable[Mapping[str, Any]]:
        """A row per relay, for operators."""
        carried = Counter(link.name for link, _ in self._owners.values())
        return [{"id": link.name, "pid": link.pid, "requests": carried[link.name]} for link in self._links.values()]

    # what links meet

    def greeted(self, link: "_Link") -> None:
        """A relay has said its name. An older link of that name is dead, whether or not it is known already."""
        older = self._links.pop(link.name, None)
        if older is not None:
            older.abort()
            self._orphan(older)
        self.counts["connected"] += 1
        self._links[link.name] = link
        link.send(Fleet(self._core.fleet()))
        beat = self._core.beat()
        for each in self._links.values():  # one more relay may be what the others waited for
            each.send(beat)

    def heard(self, link: "_Link", number: int, message: Up) -> None:
        match message:
            case RequestArrived(request):
                if request.id in self._owners:
                    self.counts["renamed"] += 1
                    link.send(Taken(), number)
                    return
                self._owners[request.id] = (link, number)
                self._post(message, request.id)
            case PrefillDone() | FirstToken() | RequestFinished() | LegFailed() | ClientGone():
                if self._owners.get(message.request_id) == (link, number):
                    self._post(message, message.request_id)
            case Counts(totals):
                link.totals = {
                    (metric, kind): value for metric, kinds in totals.items() for kind, value in kinds.items()
                }
                self._core.counted()
            case Hello():
                raise FrameError("a second Hello")

    def lost(self, link: "_Link", reason: str) -> None:
        if self._links.get(link.name) is not link:
            return
        del self._links[link.name]
        if orphans := self._orphan(link):
            log.warning("%s (process %d) is gone with %d requests: %s", link.name, link.pid, orphans, reason)

    def unreadable(self, link: "_Link", error: FrameError) -> None:
        self.counts["unreadable"] += 1
        log.error("what %s says cannot be read: %s", link.name or "somebody at the relays' socket", error)

    def _post(self, event: Event, request_id: RequestId) -> None:
        """A defect while one request is handled ends that one; its relay carries others, which go on."""
        try:
            self._core.post(event)
        except Exception as error:
            log.error("handling %s failed: %s", type(event).__name__, trace_of(error))
            self.counts["defects"] += 1
            reason = "the scheduler could not decide, which is a defect of it"
            self.perform(Answer(request_id, Outcome(Ending.NO_CORE, reason)))
            self.over(request_id)
            with contextlib.suppress(Exception):  # the same defect again: it has been told
                self._core.post(ClientGone(request_id))

    def _orphan(self, link: "_Link") -> int:
        self.counts["lost"] += 1
        self._past.update(link.totals)
        orphans = [request_id for request_id, (owner, _) in self._owners.items() if owner is link]
        for request_id in orphans:
            self.counts["orphaned"] += 1
            self._core.post(RelayLost(request_id))
            self.over(request_id)
        return len(orphans)

    def _tick(self) -> None:
        now_s = self._loop.time()
        for link in list(self._links.values()):
            if now_s - link.heard_s > SILENCE_S:
                link.abort()
                self.lost(link, f"silent for {SILENCE_S:g} s")
            else:
                link.send(self._core.beat())
        self._beat = self._loop.call_later(BEAT_S, self._tick)


@dataclass(eq=False)
class _Link(asyncio.Protocol):
    """One connection. It has a name from its Hello on."""

    links: RelayLinks
    version: str
    name: str = ""
    pid: int = 0
    totals: Mapping[tuple[str, str], int] = field(default_factory=dict)
    heard_s: float = 0.0
    _frames: FrameReader = field(default_factory=FrameReader)
    _transport: asyncio.Transport = field(init=False)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard_s = asyncio.get_running_loop().time()
        try:
            for number, message in self._frames.feed(data):
                if self.name:
                    self.links.heard(self, number, cast("Up", message))
                elif isinstance(message, Hello) and message.version == self.version:
                    self.name, self.pid = message.relay, message.pid
                    self.links.greeted(self)
                else:
                    raise FrameError(f"expected the Hello of a relay of version {self.version}, not {message!r}")
        except FrameError as error:
            self.links.unreadable(self, error)
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.links.lost(self, str(exc or "it closed its connection"))

    def send(self, message: Down, number: int = 0) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(frame(message, number))
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.abort()
            asyncio.get_running_loop().call_soon(self.links.lost, self, f"it left {UNREAD_BYTES_MAX} bytes unread")

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
