"""The HTTP/1.1 server of the data path, on asyncio.Protocol and httptools (DESIGN 13: ten times a framework's speed).

One sweep per server looks at the deadlines of all connections: no timer is armed per connection and phase.
"""

import asyncio
import contextlib
import errno
import ssl
from collections.abc import Callable

from vicinal.gateway.address_counts import AddressCounts
from vicinal.gateway.body_pieces import LongBodies
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind
from vicinal.gateway.request_reader import Admits
from vicinal.gateway.server_connection import Handler, ServerConnection

_CURES = {
    errno.EADDRINUSE: "the port is in use; choose another port (server.port, `up --port`), or stop what listens there",
    errno.EACCES: "this port needs privileges; choose one above 1023",
}


class HttpServer:
    """Listens on one address and gives each complete request to `handler`; `count` is told of what it does not. The
    body of one that `admits` does not let in is not read if it is long: `handler` gets the request without it."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        count: Callable[[RefusalKind], None],
        admits: Admits | None = None,
    ) -> None:
        self.handler = handler
        self.admits = admits
        self.limits = limits
        self.long_bodies = LongBodies(limits.long_body_bytes, limits.long_bodies_bytes)
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.stopping = False
        self.count: Callable[[RefusalKind], None] = count
        self._connections: set[ServerConnection] = set()
        self._of_address = AddressCounts(limits.address_connections)
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._all_closed = asyncio.Event()

    async def start(self, host: str, port: int, *, shared: bool = False, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port (0 takes a free one). Where it is `shared`, the system spreads connections over all
        processes that listen at it. Raises OSError naming host, port and the way out."""
        try:
            self._listener = await self.loop.create_server(
                lambda: ServerConnection(self),
                host,
                port,
                backlog=1024,
                reuse_port=shared,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self.limits.head_s,
                ssl_shutdown_timeout=None if tls is None else self.limits.linger_s,
            )
        except OSError as error:
            cure = _CURES.get(error.errno or 0, "choose a host and port of this machine")
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {cure}") from error
        self._sweep()
        port_taken: int = self._listener.sockets[0].getsockname()[1]
        return port_taken

    async def stop(self, drain_s: float) -> None:
        """Accept no more, let running answers finish for up to `drain_s` seconds, then cut what is left."""
        self.stopping = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.stop()
        try:
            await self._closed_within(drain_s)
        finally:
            for connection in list(self._connections):
                self.count(RefusalKind.NOT_DRAINED)
                connection.abort()
        await self._closed_within(self.limits.linger_s)
        if self._sweeper is not None:
            self._sweeper.cancel()

    def opened(self, connection: ServerConnection) -> None:
        self._connections.add(connection)
        if not self._of_address.add(connection.address):
            self.count(RefusalKind.TOO_MANY_OF_ADDRESS)
            connection.abort()
        elif len(self._connections) > self.limits.connections:
            self.count(RefusalKind.TOO_MANY_CONNECTIONS)
            connection.abort()
        if self.stopping:  # a loop may still hand over what was waiting when the listener closed
            connection.stop()

    def closed(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        self._of_address.remove(connection.address)
        if not self._connections:
            self._all_closed.set()

    async def _closed_within(self, limit_s: float) -> None:
        if self._connections:
            self._all_closed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._all_closed.wait()

    def _sweep(self) -> None:
        now_s = self.loop.time()
        for connection in list(self._connections):
            connection.sweep(now_s)
        self._sweeper = self.loop.call_later(self.limits.sweep_s, self._sweep)
