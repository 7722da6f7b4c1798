"""One client's connection: requests in, answers out, one at a time and in order.

What a pipelining client sends during an answer is kept unparsed up to a bound, then reading stops. It stops for no
other reason, since a socket that is not read cannot tell that its client has gone. Nothing new is answered while the
client does not read what it was sent, so a connection's memory is bounded whatever its client does.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Protocol, cast

from vicinal.gateway.errors import error_body
from vicinal.gateway.http_message import JSON, HttpRequest, Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.request_reader import Phase, ReadRequest, RequestReader
from vicinal.gateway.responder import Responder

Handler = Callable[[HttpRequest, Responder], None]

_log = logging.getLogger(__name__)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_PIPELINED_BYTES = 64 * 1024


class Home(Protocol):
    """What a connection needs of the server that it belongs to."""

    handler: Handler
    limits: Limits
    loop: asyncio.AbstractEventLoop
    stopping: bool

    def opened(self, connection: "ServerConnection") -> None: ...

    def closed(self, connection: "ServerConnection") -> None: ...

    def refused(self) -> None: ...


class ServerConnection(asyncio.Protocol):
    """Deadlines are only noted here; the server's sweep calls `sweep` to act on them."""

    _transport: asyncio.Transport

    def __init__(self, home: Home) -> None:
        self._home = home
        self._limits = home.limits
        self._loop = home.loop
        self._reader = RequestReader(home.limits)
        self._answering: Responder | None = None
        self._unread = bytearray()
        self._reading_paused = False
        self._writing_paused = False
        self._lingering = False
        self._advancing = False
        self._phase_seen: Phase | None = None
        self._deadline_s: float | None = None
        self._stall_deadline_s: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but class
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):  # not TCP: nothing to delay
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._home.opened(self)
        self._note_phase()

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        if self._answering is not None or self._writing_paused:
            self._unread += data
            if len(self._unread) > _PIPELINED_BYTES and not self._reading_paused:
                self._reading_paused = True
                self._transport.pause_reading()
            return
        self._reader.feed(data)
        self._advance()

    def eof_received(self) -> bool:
        self._client_gone()
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        self._deadline_s = self._stall_deadline_s = None
        self._client_gone()
        self._home.closed(self)

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._stall_deadline_s = self._loop.time() + self._limits.stall_s
        if self._answering is not None and self._answering.listener is not None:
            self._answering.listener.pause()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._stall_deadline_s = None
        if self._answering is None:
            self._advance()
        elif self._answering.listener is not None:
            self._answering.listener.resume()

    def sweep(self, now_s: float) -> None:
        """Act when a deadline is past."""
        if self._stall_deadline_s is not None and now_s >= self._stall_deadline_s:
            self._transport.abort()
        elif self._deadline_s is not None and now_s >= self._deadline_s:
            self._deadline_s = None
            if self._lingering:
                self._transport.abort()
            elif self._reader.phase is Phase.IDLE:
                self._transport.close()
            else:
                self._refuse(Refusal(408, f"the request's {self._reader.phase.value} took too long"))

    def stop(self) -> None:
        """Close as soon as the present answer, if any, is complete."""
        if self._answering is not None:
            self._answering.keep_alive = False
        else:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _advance(self) -> None:
        """Answer what is ready, one after the other, until an answer takes its time or nothing is left."""
        if self._advancing or self._lingering:
            return
        self._advancing = True
        try:
            while self._free_to_answer():
                if self._reader.ready:
                    self._take(self._reader.ready.popleft())
                elif self._unread:
                    data = bytes(self._unread)
                    self._unread.clear()
                    self._reader.feed(data)
                else:
                    break
        finally:
            self._advancing = False
        if self._free_to_answer():
            if self._reading_paused:
                self._reading_paused = False
                self._transport.resume_reading()
            if self._reader.wants_continue:
                self._reader.wants_continue = False
                self._transport.write(_CONTINUE)
        self._note_phase()

    def _free_to_answer(self) -> bool:
        occupied = self._answering is not None or self._writing_paused or self._lingering
        return not occupied and not self._transport.is_closing()

    def _take(self, item: ReadRequest | Refusal) -> None:
        if isinstance(item, Refusal):
            self._refuse(item)
            return
        keep_alive = item.keep_alive and not self._home.stopping
        responder = Responder(
            self._transport,
            keep_alive=keep_alive,
            http10=item.http10,
            finished=self._answered,
            head_only=item.request.method == b"HEAD",
        )
        self._answering = responder
        self._forget_phase()
        try:
            self._home.handler(item.request, responder)
        except Exception:  # a defect while one request is handled must not leave its client without an answer
            _log.exception("handling %s failed", item.request.path.decode("latin-1"))
            self._defect(responder)

    def _defect(self, responder: Responder) -> None:
        if responder.started:
            self._transport.abort()
            return
        responder.respond(500, JSON, error_body(500, "internal error of the gateway", code="internal_error"))
        if responder.listener is not None:
            responder.listener.client_gone()

    def _answered(self, responder: Responder) -> None:
        if self._answering is not responder:
            return
        self._answering = None
        if responder.keep_alive:
            self._advance()
        else:
            self._part()

    def _refuse(self, refusal: Refusal) -> None:
        self._home.refused()
        responder = Responder(self._transport, keep_alive=False, http10=False, finished=self._answered)
        self._answering = responder
        responder.respond(refusal.status, JSON, error_body(refusal.status, refusal.message))

    def _part(self) -> None:
        """Close after the answer; when a request was cut short, first drop what still comes of it, because closing
        on unread bytes resets the connection and takes the answer with it."""
        if self._transport.is_closing():
            return
        self._unread.clear()
        if self._reader.phase is Phase.IDLE:
            self._transport.close()
            return
        self._lingering = True
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        self._transport.write_eof()
        self._deadline_s = self._loop.time() + self._limits.linger_s

    def _client_gone(self) -> None:
        if self._answering is not None:
            answering, self._answering = self._answering, None
            answering.abandon()

    def _forget_phase(self) -> None:
        self._phase_seen = None
        self._deadline_s = None

    def _note_phase(self) -> None:
        """A deadline belongs to a phase and starts with it: bytes that drip in do not move it."""
        if self._lingering or self._answering is not None:
            return
        phase = self._reader.phase
        if phase is self._phase_seen and phase is not Phase.IDLE:
            return
        self._phase_seen = phase
        if phase is Phase.IDLE:
            limit_s = self._limits.idle_s
        elif phase is Phase.HEAD:
            limit_s = self._limits.head_s
        else:
            limit_s = self._limits.body_s
        self._deadline_s = self._loop.time() + limit_s
