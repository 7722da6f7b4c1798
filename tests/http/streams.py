"""What a connection's bytes come to, however they are cut: requests and a refusal, or one answer of an engine."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import httptools

from vicinal.engines.long_body import Pieces
from vicinal.gateway.answer_reader import AnswerReader
from vicinal.gateway.body_pieces import LongBodies
from vicinal.gateway.engine_faults import EngineFaultError
from vicinal.gateway.http_message import Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind
from vicinal.gateway.request_reader import RequestReader


@dataclass(frozen=True, slots=True)
class Read:
    """A request as the reader gave it."""

    method: bytes
    path: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    keep_alive: bool
    http10: bool


@dataclass(frozen=True, slots=True)
class Refused:
    status: int
    kind: RefusalKind
    message: str


def cut(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(places) if a < b]


def requests_of(pieces: Sequence[bytes], limits: Limits) -> list[Read | Refused]:
    """All that a reader makes of the pieces, asked after each of them."""
    reader = RequestReader(limits, LongBodies(limits.body_bytes, limits.body_bytes))
    made: list[Read | Refused] = []
    for piece in pieces:
        reader.feed(piece)
        while (item := reader.next()) is not None or reader.more:
            if item is None:
                continue
            if isinstance(item, Refusal):
                made.append(Refused(item.meaning.status, item.kind, item.message))
                continue
            request = item.request
            body = request.body
            assert not isinstance(body, Pieces)
            fields = tuple(sorted(request.headers.items()))
            made.append(Read(request.method, request.path, fields, body, item.keep_alive, item.http10))
        assert reader.waiting_bytes <= limits.head_bytes + len(piece)
    return made


@dataclass(slots=True)
class _Second:
    """The same requests as httptools alone reads them."""

    urls: list[bytes]
    bodies: list[bytes]
    complete: int = 0

    def on_message_begin(self) -> None:
        self.urls.append(b"")
        self.bodies.append(b"")

    def on_url(self, url: bytes) -> None:
        self.urls[-1] += url

    def on_body(self, body: bytes) -> None:
        self.bodies[-1] += body

    def on_message_complete(self) -> None:
        self.complete += 1


def second_opinion(stream: bytes, made: Sequence[Read | Refused]) -> None:
    """Fails where httptools, fed the whole stream, refuses or sees another request than one that we let through."""
    second = _Second([], [])
    # it may refuse what we refuse, and stops at an upgrade, which we do not take
    with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        httptools.HttpRequestParser(second).feed_data(stream)
    for number, item in enumerate(made):
        if isinstance(item, Refused) or any(name == b"upgrade" for name, _ in item.headers):
            return
        assert number < second.complete, f"request {number} is refused there: {item}"
        body, url = second.bodies[number], second.urls[number]
        assert item.body == body, f"request {number} has the body {item.body!r} here and {body!r} there"
        assert item.path in url or item.path == b"/", f"request {number}: {item.path!r} of {url!r}"


@dataclass(frozen=True, slots=True)
class Answered:
    """An engine's answer as far as it came. `whole` is False also for one that is broken."""

    whole: bool
    broken: bool
    status: int
    content_type: bytes
    body: bytes


def answer_of(pieces: Sequence[bytes], limits: Limits, *, ends: bool) -> Answered:
    """`ends`: the engine then ends the connection in order."""
    reader = AnswerReader(limits)
    body = b""
    try:
        for piece in pieces:
            reader.feed(piece)
            body += reader.taken()
            if reader.complete:
                break
        if ends:
            reader.ended()
    except EngineFaultError:
        return Answered(False, True, 0, b"", b"")
    if not reader.head_ready:
        return Answered(False, False, 0, b"", b"")
    return Answered(reader.complete, False, reader.status, reader.content_type, body)
