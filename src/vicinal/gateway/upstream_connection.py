"""One keep-alive connection to an engine, carrying one call at a time.

Bytes of a body are handed on as they come: what one read brings goes on as one piece, however many HTTP chunks it
was. A sink that is slow pauses the socket, so nothing piles up here. A long request goes out piece by piece, as fast as
the engine reads.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from vicinal.engines.long_body import Piece
from vicinal.gateway.answer_reader import AnswerReader
from vicinal.gateway.directory import Address
from vicinal.gateway.engine_faults import EngineFault, EngineFaultError
from vicinal.gateway.limits import Limits

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

    `lost(connection, sink, fault)`: `sink` is the unfinished call's, None when idle. `answered` is True when a byte of
    the call's response had come.
    """

    _transport: asyncio.Transport

    def __init__(
        self,
        address: Address,
        limits: Limits,
        clock: Callable[[], float],
        released: Callable[["UpstreamConnection"], None],
        lost: Callable[["UpstreamConnection", Sink | None, EngineFaultError | None], None],
    ) -> None:
        self.address = address
        self.active_s = 0.0
        self.answered = False
        self._clock = clock
        self._released = released
        self._lost = lost
        self._sink: Sink | None = None
        self._head_told = False
        self._paused = False
        self._unsent: Iterator[Piece] | None = None
        self._writing_paused = False
        self._reader = AnswerReader(limits)

    @property
    def usable(self) -> bool:
        return self._sink is None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but class

    def call(self, message: Message, sink: Sink) -> None:
        """Send one request; its response goes to `sink`."""
        self._sink = sink
        self.answered = False
        self._head_told = False
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

    def fail(self, fault: EngineFaultError) -> None:
        """End the connection, and the call with `fault`."""
        sink, self._sink = self._sink, None
        self._unsent = None
        self._transport.abort()
        self._lost(self, sink, fault)

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
        if sink is None:  # bytes that answer nothing: whatever they are, they must not answer the next call
            self._transport.abort()
            self._lost(self, None, EngineFaultError(EngineFault.UNASKED_BYTES, "bytes that answer nothing"))
            return
        self.answered = True
        self.active_s = self._clock()
        try:
            self._reader.feed(data)
        except EngineFaultError as fault:
            self.fail(fault)
            return
        if not self._head_told or self._reader.complete:
            self._deliver(sink)
        elif self._reader.body:
            sink.data(self._reader.taken())

    def connection_lost(self, exc: Exception | None) -> None:
        sink = self._sink
        if sink is not None and exc is None:
            self._reader.ended()
            if self._reader.complete:
                self._deliver(sink)
                sink = None
        self._reader.close()
        self._sink = self._unsent = None
        words = str(exc) if exc else "the engine closed the connection"
        self._lost(self, sink, None if sink is None else EngineFaultError(EngineFault.CUT_SHORT, words))

    def _send_on(self) -> None:
        while self._unsent is not None and not self._writing_paused and not self._transport.is_closing():
            piece = next(self._unsent, None)
            if piece is None:
                self._unsent = None
            else:
                self._transport.write(piece)

    def _deliver(self, sink: Sink) -> None:
        """Hand over what a read brought. A sink may cancel the call at any step, hence the checks in between."""
        reader = self._reader
        if reader.head_ready and not self._head_told:
            self._head_told = True
            sink.head(reader.status, reader.content_type)
        if reader.body and self._sink is sink:
            sink.data(reader.taken())
        if reader.complete and self._sink is sink:
            self._sink = None
            self._part(reader)
            sink.end()

    def _part(self, reader: AnswerReader) -> None:
        """An engine that said more than its answer, or gave it before it had read the whole request, gets no other."""
        unsent = self._unsent is not None or self._transport.get_write_buffer_size() > 0
        keep = reader.reusable and not unsent and not self._transport.is_closing()
        if reader.excess:
            self._lost(self, None, EngineFaultError(EngineFault.UNASKED_BYTES, "bytes behind an answer"))
        reader.reset()
        if keep:
            self.resume()
            self._released(self)
        elif unsent:
            self._unsent = None
            self._transport.abort()  # closing would first send what the engine does not want to read, and may never
        else:
            self._transport.close()
