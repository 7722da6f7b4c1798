"""What a load generator makes of bytes: when an answer is whole, whether it is right, how long it took."""

import re
from array import array

import httptools
import msgspec
import numpy as np

_STAMP = re.compile(rb'"system_fingerprint":"(\d{20})"')
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TOKEN = b" token"
_LAST = b"\r\n0\r\n\r\n"


class Tail(msgspec.Struct, frozen=True):
    """Milliseconds; None without a sample."""

    p50: float | None
    p99: float | None


class Measured(msgspec.Struct, frozen=True):
    """Of the requests that ended in `seconds`: until the answer was whole, until its first byte, and from an engine's
    write to the client's read of each token (streamed only). `unsent` were due and not sent, because too many others
    were under way."""

    requests: int
    failed: int
    unsent: int
    seconds: float
    whole_ms: Tail
    first_ms: Tail
    token_ms: Tail


class AnswerReader:
    """Collects one answer and tells when it is whole. A chunked body is told by its end: JSON has no raw line ends."""

    __slots__ = ("_chunked", "_left", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._left: int | None = None
        self._chunked = False

    def feed(self, data: bytes) -> bool:
        """The next bytes; True when they are the last."""
        self._parts.append(data)
        if self._chunked:
            tail = data if len(data) >= len(_LAST) else b"".join(self._parts[-len(_LAST) :])
            return tail.endswith(_LAST)
        if self._left is not None:
            self._left -= len(data)
            return self._left <= 0
        came = b"".join(self._parts)
        head, end, body = came.partition(b"\r\n\r\n")
        if not end:
            return False
        if found := _LENGTH.search(head):
            self._left = int(found[1]) - len(body)
            return self._left <= 0
        self._chunked = True
        return came.endswith(_LAST)

    def has(self, tokens: int) -> bool:
        """The answer is a good one of so many tokens. A router may have cut its chunks within a token."""
        raw = b"".join(self._parts)
        return raw[9:12] == b"200" and (raw.count(_TOKEN) == tokens or _Body(raw).whole.count(_TOKEN) == tokens)


class _Body:
    """The body of an answer, without the framing of its chunks."""

    def __init__(self, raw: bytes) -> None:
        self.whole = b""
        httptools.HttpResponseParser(self).feed_data(raw)

    def on_body(self, data: bytes) -> None:
        self.whole += data


class Samples:
    """What is measured, while `on`."""

    def __init__(self, tokens: int, *, streamed: bool) -> None:
        self.on = False
        self._tokens = tokens
        self._streamed = streamed
        self._failed = 0
        self._unsent = 0
        self._whole_ns = array("q")
        self._first_ns = array("q")
        self._token_ns = array("q")

    def came(self, data: bytes, now_ns: int) -> None:
        """Bytes of an answer. A token whose stamp is cut in two is not timed."""
        if self.on and self._streamed:
            self._token_ns.extend([now_ns - int(stamp) for stamp in _STAMP.findall(data)])

    def ended(self, answer: AnswerReader, whole_ns: int, first_ns: int) -> None:
        if not self.on:
            return
        if answer.has(self._tokens):
            self._whole_ns.append(whole_ns)
            self._first_ns.append(first_ns)
        else:
            self._failed += 1

    def broke(self) -> None:
        """A request had no answer."""
        self._failed += self.on

    def not_sent(self) -> None:
        self._unsent += self.on

    def measured(self, seconds: float) -> Measured:
        tails = [_tail(samples) for samples in (self._whole_ns, self._first_ns, self._token_ns)]
        return Measured(len(self._whole_ns), self._failed, self._unsent, seconds, *tails)


def _tail(samples_ns: "array[int]") -> Tail:
    if not samples_ns:
        return Tail(None, None)
    p50, p99 = np.percentile(np.frombuffer(samples_ns, dtype=np.int64), (50, 99)) / 1e6
    return Tail(float(p50), float(p99))
