"""The answer to one request: exactly one, whole or as a stream, framed for the client's HTTP version."""

from collections.abc import Callable
from typing import Protocol

from vicinal.gateway.http_message import LAST_CHUNK, response_head


class ClientListener(Protocol):
    """Who wants to know what the client does while its answer is made."""

    def client_gone(self) -> None:
        """The client closed its connection before its answer was complete."""
        ...

    def pause(self) -> None:
        """The client reads more slowly than bytes come: send no more for now."""
        ...

    def resume(self) -> None:
        """The client caught up."""
        ...


class Wire(Protocol):
    """The part of a transport that an answer needs."""

    def write(self, data: bytes) -> None: ...


class Responder:
    """Writes one answer. Once it is done, or the client has gone, everything further is dropped.

    `started` is True when a byte of the answer was written; `done` when nothing more can be. With `head_only` (the
    method is HEAD) a whole answer's body is left out: its client would read it as the next answer.
    """

    __slots__ = ("_chunked", "_finished", "_head_only", "_http10", "_wire", "done", "keep_alive", "listener", "started")

    def __init__(
        self,
        wire: Wire,
        *,
        keep_alive: bool,
        http10: bool,
        finished: Callable[["Responder"], None],
        head_only: bool = False,
    ) -> None:
        self.keep_alive = keep_alive
        self.listener: ClientListener | None = None
        self.started = False
        self.done = False
        self._wire = wire
        self._http10 = http10
        self._head_only = head_only
        self._chunked = False
        self._finished = finished

    def respond(self, status: int, content_type: bytes, body: bytes, extra: bytes = b"") -> None:
        """The whole answer. `extra` are header lines, each with its line end."""
        if self.done or self.started:
            return
        self.started = True
        head = response_head(status, content_type, extra, length=len(body), chunked=False, keep_alive=self.keep_alive)
        self._wire.write(head if self._head_only else head + body)
        self._end()

    def start(self, status: int, content_type: bytes, extra: bytes = b"") -> None:
        """Begin an answer of unknown length."""
        if self.done or self.started:
            return
        self.started = True
        self._chunked = not self._http10
        self._wire.write(
            response_head(status, content_type, extra, length=None, chunked=self._chunked, keep_alive=self.keep_alive)
        )

    def write(self, data: bytes) -> None:
        """The next bytes of a started answer."""
        if self.done or not data:  # an empty chunk would end the body
            return
        self._wire.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def finish(self, *, close: bool = False) -> None:
        """The end of a started answer; with `close`, the connection ends too."""
        if self.done:
            return
        if close:
            self.keep_alive = False
        if self._chunked:
            self._wire.write(LAST_CHUNK)
        self._end()

    def abandon(self) -> None:
        """The client has gone."""
        if self.done:
            return
        self.done = True
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.client_gone()

    def _end(self) -> None:
        self.done = True
        self.listener = None
        self._finished(self)
