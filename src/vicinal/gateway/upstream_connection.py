"""One keep-alive connection to an engine, carrying one call at a time.

Bytes of a body are handed on as they come: what one read brings goes on as one piece, however many HTTP chunks it
was. A sink that is slow pauses the socket, so nothing piles up here. A long request goes out piece by piece, as fast as
the engine reads.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol, cast

import httptools

from vicinal.engines.long_body import Piece
from vicinal.gateway.directory import Address

Message = bytes | tuple[Piece, ...]
"""A complete HTTP request, in one piece or several."""


class Sink(Protocol):
    """Who receives a call's response. `end` or `failed` comes last, once, unless the call was cancelled."""

    def head(self, status: int, content_type: bytes) -> None: ...

    def data(self, chunk: bytes) -> None: ...

    def end(self) -> None: ...

    def failed(self, reason: str) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """`released` is called when a call is over and the connection can carry another; `lost` when it cannot.

    `lost(connection, sink, answered, reason)`: `sink` is the unfinished call's, None when idle; `answered` is True
    when a byte of its response had come.
    """

    _transport: asyncio.Transport
    _body: list[bytes]

    def __init__(
        self,
        address: Address,
        clock: Callable[[], float],
        released: Callable[["UpstreamConnection"], None],
        lost: Callable[["UpstreamConnection", Sink | None, bool, str], None],
    ) -> None:
        self.address = address
        self.active_s = 0.0
        self._clock = clock
        self._released = released
        self._lost = lost
        self._sink: Sink | None = None
        self._answered = False
        self._paused = False
        self._unsent: Iterator[Piece] | None = None
        self._writing_paused = False
        self._body = []
        self.on_body = self._body.append  # straight into the list: each token comes here
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    @property
    def usable(self) -> bool:
        return self._sink is None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but class

    def call(self, message: Message, sink: Sink) -> None:
        """Send one request; its response goes to `sink`."""
        self._sink = sink
        self._answered = False
        self.active_s = self._clock()
        if isinstance(message, bytes):
            self._transport.write(message)
        else:
            self._unsent = iter(message)
            self._send_on()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.active_s = self._clock()
        self._send_on()

    def cancel(self) -> None:
        """Give the call up. The connection goes with it: that is how an engine learns of it."""
        self._sink = self._unsent = None
        self._transport.abort()

    def fail(self, reason: str) -> None:
        """End the connection, and the call with `reason`."""
        sink, self._sink = self._sink, None
        self._unsent = None
        self._transport.abort()
        self._lost(self, sink, self._answered, reason)

    def pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        self.active_s = self._clock()
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        sink = self._sink
        if sink is None:
            self._transport.abort()  # bytes that answer nothing: whatever they are, they must not answer the next call
            return
        self._answered = True
        self.active_s = self._clock()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(f"the engine's response is not HTTP: {error}")
            return
        if self._head_ready or self._complete:
            self._deliver(sink)
        elif self._body:
            sink.data(self._taken())

    def connection_lost(self, exc: Exception | None) -> None:
        sink, self._sink = self._sink, None
        self._unsent = None
        if sink is not None and exc is None and self._head_seen and not self._framed:
            self._complete = True  # neither a length nor chunks: the end of the connection is the end of the body
            self._sink = sink
            self._deliver(sink)
            sink = None
        self._lost(self, sink, self._answered, str(exc) if exc else "the engine closed the connection")

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-type":
            self._content_type = value
        elif name in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._keep_alive = bool(self._parser.should_keep_alive())
        self._head_ready = self._status >= 200  # 1xx only announces the response

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self._complete = True

    def _send_on(self) -> None:
        while self._unsent is not None and not self._writing_paused and not self._transport.is_closing():
            piece = next(self._unsent, None)
            if piece is None:
                self._unsent = None
            else:
                self._transport.write(piece)

    def _taken(self) -> bytes:
        body = self._body
        taken = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        return taken

    def _deliver(self, sink: Sink) -> None:
        """Hand over what a read brought. A sink may cancel the call at any step, hence the checks in between."""
        if self._head_ready:
            self._head_ready = False
            self._head_seen = True
            sink.head(self._status, self._content_type)
        if self._body and self._sink is sink:
            sink.data(self._taken())
        if self._complete and self._sink is sink:
            self._sink = None
            keep_alive = self._keep_alive and self._framed and not self._transport.is_closing()
            if self._unsent is not None:  # answered before all was sent: the rest must not become the next request
                self._unsent = None
                self._transport.abort()  # closing would first send what the engine does not want to read
                keep_alive = False
            self._reset()
            if keep_alive:
                self.resume()
                self._released(self)
            else:
                self._transport.close()
            sink.end()

    def _reset(self) -> None:
        self._status = 0
        self._content_type = b"application/json"
        self._keep_alive = False
        self._framed = False
        self._head_ready = False
        self._head_seen = False
        self._complete = False
        self._body.clear()
