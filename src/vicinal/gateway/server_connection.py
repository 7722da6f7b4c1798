"""One client's connection: requests in, answers out, one at a time and in order.

What a pipelining client sends during an answer is kept unparsed up to a bound, then reading stops. It stops for no
other reason, since a socket that is not read cannot tell that its client has gone. Nothing new is answered while the
client does not read what it was sent, so a connection's memory is bounded whatever its client does.

A client that ends its sending side has gone: one that was closed or died looks the same until it is written to, and
to work on for it costs GPU seconds.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Protocol, cast

from vicinal.gateway.body_pieces import LongBodies
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.errors import ApiError, error_body, header_lines
from vicinal.gateway.http_message import JSON, HttpRequest, Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind
from vicinal.gateway.request_reader import Admits, Phase, ReadRequest, RequestReader
from vicinal.gateway.responder import Responder
from vicinal.gateway.traces import trace_of

Handler = Callable[[HttpRequest, Responder], None]

_log = logging.getLogger(__name__)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_ANSWERS_IN_A_ROW = 64
"""So many pipelined requests are answered from memory before other connections have their turn."""
_WRITE_BUFFER_BYTES = 64 * 1024
_TURN_BYTES = 64 * 1024
"""After a read of so much other connections have their turn: libuv would read up to 32 times in a row."""
_TOO_SLOW = {Phase.HEAD: RefusalKind.HEAD_TOO_SLOW, Phase.BODY: RefusalKind.BODY_TOO_SLOW}


class Home(Protocol):
    """What a connection needs of the server that it belongs to."""

    handler: Handler
    limits: Limits
    admits: Admits | None
    long_bodies: LongBodies
    loop: asyncio.AbstractEventLoop
    stopping: bool

    def opened(self, connection: "ServerConnection") -> None: ...

    def closed(self, connection: "ServerConnection") -> None: ...

    def count(self, kind: RefusalKind) -> None: ...


class ServerConnection(asyncio.Protocol):
    """`address` is the client's. Deadlines are only noted here; the server's sweep calls `sweep` to act on them."""

    _transport: asyncio.Transport

    def __init__(self, home: Home) -> None:
        self.address = ""
        self._home = home
        self._limits = home.limits
        self._loop = home.loop
        self._reader = RequestReader(home.limits, home.long_bodies, home.admits)
        self._answering: Responder | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._lingering = False
        self._advancing = False
        self._goes_on = False
        self._phase_seen: Phase | None = None
        self._deadline_s: float | None = None
        self._stall_deadline_s: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but class
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.address = self._reader.peer = str(peer[0])
        self._transport.set_write_buffer_limits(_WRITE_BUFFER_BYTES)  # over TLS it would be 512 KiB
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):  # not TCP: nothing to delay
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._home.opened(self)
        self._note_phase()

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        self._reader.feed(data)
        if self._answering is None and not self._writing_paused:
            self._advance()
        else:
            self._keep_or_stop_reading()
        if len(data) >= _TURN_BYTES and not self._reading_paused and not self._transport.is_closing():
            self._transport.pause_reading()
            self._loop.call_soon(self._next_turn)

    def eof_received(self) -> bool:
        self._count_cut()
        self._client_gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._count_cut()
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
            self._stall_deadline_s = None
            self._home.count(RefusalKind.STALLED_READER)
            self._transport.abort()
        elif self._deadline_s is not None and now_s >= self._deadline_s:
            self._deadline_s = None
            if self._lingering:
                self._transport.abort()
            elif (too_slow := _TOO_SLOW.get(self._reader.phase)) is not None:
                words = f"the request's {self._reader.phase.value} took too long"
                self._refuse(self._reader.refuse(Refusal(too_slow, words)))
            else:
                self._home.count(RefusalKind.IDLE)
                self._transport.close()

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
        taken = 0
        try:
            while taken < _ANSWERS_IN_A_ROW and self._free_to_answer() and (item := self._reader.next()) is not None:
                self._take(item)
                taken += 1
        finally:
            self._advancing = False
        more = taken == _ANSWERS_IN_A_ROW or self._reader.more
        if more and not self._goes_on:
            self._goes_on = True
            self._loop.call_soon(self._go_on)
        self._keep_or_stop_reading(more=more)
        if self._free_to_answer() and self._reader.wants_continue:
            self._reader.wants_continue = False
            self._transport.write(_CONTINUE)
        self._note_phase()

    def _go_on(self) -> None:
        self._goes_on = False
        self._advance()

    def _keep_or_stop_reading(self, *, more: bool = False) -> None:
        """What waits for an answer before it is bounded. What waits for bytes of its own needs them read."""
        waits = more or not self._free_to_answer()
        full = waits and self._reader.waiting_bytes > self._limits.waiting_bytes
        if full is self._reading_paused or self._lingering or self._transport.is_closing():
            return
        if full:
            self._reading_paused = True
            self._transport.pause_reading()
        elif not waits:
            self._reading_paused = False
            self._transport.resume_reading()

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
        except Exception as error:  # a defect while one request is handled must not leave its client without an answer
            _log.error("handling %s failed: %s", item.request.path.decode("latin-1"), trace_of(error))
            self._defect(responder)

    def _defect(self, responder: Responder) -> None:
        if responder.started:
            self._transport.abort()
            return
        listener = responder.listener
        error = ApiError(ErrorCode.INTERNAL_ERROR, "internal error of the gateway")
        responder.respond(error.status, JSON, error.body(), error.header_lines())
        if listener is not None:
            listener.client_gone()

    def _answered(self, responder: Responder) -> None:
        if self._answering is not responder:
            return
        self._answering = None
        if responder.keep_alive:
            self._advance()
        else:
            self._part()

    def _refuse(self, refusal: Refusal) -> None:
        self._home.count(refusal.kind)
        responder = Responder(self._transport, keep_alive=False, http10=False, finished=self._answered)
        self._answering = responder
        status = refusal.meaning.status
        body = error_body(status, refusal.message, code=refusal.kind)
        responder.respond(status, JSON, body, header_lines(refusal.meaning, refusal.kind))

    def _next_turn(self) -> None:
        if not self._reading_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _part(self) -> None:
        """Close after the answer; when a request was cut short, first drop what still comes of it, because closing
        on unread bytes resets the connection and takes the answer with it."""
        if self._transport.is_closing():
            return
        unread = self._reader.unread or self._reader.waiting_bytes > 0
        if not unread or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._lingering = True
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        self._transport.write_eof()
        self._deadline_s = self._loop.time() + self._limits.linger_s

    def _count_cut(self) -> None:
        if self._answering is None and self._reader.phase in _TOO_SLOW:
            self._home.count(RefusalKind.CUT_SHORT)

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
