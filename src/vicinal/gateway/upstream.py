"""The pool of connections to engines: the last used first, so that few stay warm and the rest can go.

An engine may close an idle connection just when it is taken again. Such a call, and only such a one (taken from the
pool, not one byte of response), is sent once more on a fresh connection.
"""

import asyncio
import ssl
from collections.abc import Iterable

from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.directory import Address
from vicinal.gateway.engine_faults import EngineFault, EngineFaultError
from vicinal.gateway.kind_counts import KindCounts
from vicinal.gateway.limits import Limits
from vicinal.gateway.upstream_connection import Message, Sink, UpstreamConnection


class _Nobody:
    """Listens to a call that is over."""

    def head(self, status: int, content_type: bytes) -> None: ...

    def data(self, chunk: bytes) -> None: ...

    def end(self) -> None: ...

    def failed(self, reason: str) -> None: ...


_NOBODY = _Nobody()


class Call:
    """One request to an engine on its way. `cancel` may come at any time; nothing reaches the sink afterwards."""

    __slots__ = ("_connection", "_opening", "_paused", "address", "data", "message", "over", "retriable", "sink")

    def __init__(self, address: Address, message: Message, sink: Sink) -> None:
        self.address = address
        self.message = message
        self.sink = sink
        self.data = sink.data  # each token passes here
        self.retriable = False
        self.over = False
        self._paused = False
        self._connection: UpstreamConnection | None = None
        self._opening: asyncio.Task[None] | None = None

    def head(self, status: int, content_type: bytes) -> None:
        self.message = b""  # it is not sent again: a long one need not be kept
        self.sink.head(status, content_type)

    def end(self) -> None:
        self._part().end()

    def failed(self, reason: str) -> None:
        if not self.over:
            self._part().failed(reason)

    def cancel(self) -> None:
        """Close the connection under the call, or stop opening it."""
        if self.over:
            return
        connection = self._connection
        self._part()
        if self._opening is not None:
            self._opening.cancel()
        if connection is not None:
            connection.cancel()

    def _part(self) -> Sink:
        """It is over: who listened is known no more, nor holds this any longer. Returns who it was."""
        sink = self.sink
        self.over = True
        self.message = b""
        self._connection = None
        self.sink, self.data = _NOBODY, _NOBODY.data
        return sink

    def pause(self) -> None:
        self._paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        self._paused = False
        if self._connection is not None:
            self._connection.resume()

    def opening(self, task: "asyncio.Task[None] | None") -> None:
        self._opening = task

    def go(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        connection.call(self.message, self)
        if self._paused:
            connection.pause()

    @property
    def silent_by_choice(self) -> bool:
        """True while we ourselves do not read: the engine's silence says nothing then."""
        return self._paused


class UpstreamPool:
    """Keep-alive connections to all engines. `tls` is for those that are reached with it; `faults` counts what they do
    wrong."""

    def __init__(self, limits: Limits, counters: GatewayCounters, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._limits = limits
        self._counters = counters
        self.faults = KindCounts(EngineFault)
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Address, list[UpstreamConnection]] = {}
        self._busy: dict[UpstreamConnection, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._sweeper = self._loop.call_later(limits.sweep_s, self._sweep)

    @property
    def busy_count(self) -> int:
        """Connections that carry a call now."""
        return len(self._busy)

    def send(self, address: Address, message: Message, sink: Sink) -> Call:
        """Send `message`, a complete HTTP request, to `address`. What comes of it goes to `sink`, never before this
        returns."""
        call = Call(address, message, sink)
        connection = self._take(address)
        if connection is None:
            self._open(call)
        else:
            call.retriable = True
            self._start(connection, call)
        return call

    def keep_only(self, addresses: Iterable[Address]) -> None:
        """Close idle connections to engines that have left; calls under way end by themselves."""
        kept = frozenset(addresses)
        for address in [a for a in self._idle if a not in kept]:
            for connection in self._idle.pop(address):
                connection.close()

    async def close(self) -> None:
        """Cancel everything."""
        self._closed = True
        self._sweeper.cancel()
        for call in list(self._busy.values()):
            call.cancel()
        self.keep_only(())
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, address: Address) -> UpstreamConnection | None:
        idle = self._idle.get(address)
        oldest_s = self._loop.time() - self._limits.engine_idle_s
        while idle:
            connection = idle.pop()
            if connection.usable and connection.active_s >= oldest_s:
                return connection
            connection.close()
        return None

    def _start(self, connection: UpstreamConnection, call: Call) -> None:
        self._busy[connection] = call
        call.go(connection)

    def _open(self, call: Call) -> None:
        task = self._loop.create_task(self._connect(call))
        call.opening(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, call: Call) -> None:
        address = call.address
        self._counters.connections_opened += 1
        try:
            async with asyncio.timeout(self._limits.connect_s):
                _, connection = await self._loop.create_connection(
                    lambda: UpstreamConnection(address, self._limits, self._loop.time, self._released, self._lost),
                    address.host,
                    address.port,
                    ssl=self._context() if address.tls else None,
                )
        except TimeoutError:
            self.faults.add(EngineFault.CONNECT_TOO_SLOW)
            call.failed(f"no connection to {address.authority} within {self._limits.connect_s:g} s")
            return
        except (OSError, ValueError) as error:  # a host that is no name at all is a ValueError
            self.faults.add(EngineFault.UNREACHABLE)
            call.failed(f"no connection to {address.authority}: {error}")
            return
        call.opening(None)
        if call.over:
            connection.close()
            return
        self._start(connection, call)

    def _context(self) -> ssl.SSLContext:
        """Made when it is needed first, where nobody gave one: it believes the system's CAs."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _released(self, connection: UpstreamConnection) -> None:
        self._busy.pop(connection, None)
        idle = self._idle.setdefault(connection.address, [])
        if self._closed or len(idle) >= self._limits.engine_idle_connections:
            connection.close()
        else:
            idle.append(connection)

    def _lost(self, connection: UpstreamConnection, sink: Sink | None, fault: EngineFaultError | None) -> None:
        call = self._busy.pop(connection, None)
        if sink is None:
            if fault is not None:
                self.faults.add(fault.kind)
            idle = self._idle.get(connection.address)
            if idle and connection in idle:
                idle.remove(connection)
            return
        if call is None or call.over or fault is None:
            return
        if call.retriable and not connection.answered and not self._closed:
            call.retriable = False
            self._counters.stale_retries += 1
            self._open(call)
        else:
            self.faults.add(fault.kind)
            call.failed(fault.reason)

    def _sweep(self) -> None:
        now_s = self._loop.time()
        for idle in self._idle.values():
            stale = [c for c in idle if now_s - c.active_s > self._limits.engine_idle_s]
            for connection in stale:
                idle.remove(connection)
                connection.close()
        for connection, call in list(self._busy.items()):
            if now_s - connection.active_s > self._limits.engine_silence_s and not call.silent_by_choice:
                call.retriable = False
                words = f"the engine was silent for {self._limits.engine_silence_s:g} s"
                connection.fail(EngineFaultError(EngineFault.SILENT, words))
        self._sweeper = self._loop.call_later(self._limits.sweep_s, self._sweep)
