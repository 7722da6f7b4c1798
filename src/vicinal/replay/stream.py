"""Reading an SSE stream for little: only its last events are parsed.

A replay has thousands of chunks per second and needs of them the time of the first and of the last, and the usage,
which comes just before `[DONE]`. So the bytes go by unread except for a tail, and that is parsed once, at the end.
An engine's or gateway's error event ends a stream, so it is in the tail too.
"""

from typing import Any

import msgspec

TAIL_BYTES = 8192


class Tail:
    """The last bytes of a stream, at least `TAIL_BYTES` of them when there were as many."""

    __slots__ = ("_chunks", "_held_bytes")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._held_bytes += len(chunk)
        if self._held_bytes > 4 * TAIL_BYTES:
            tail = b"".join(self._chunks)[-TAIL_BYTES:]
            self._chunks = [tail]
            self._held_bytes = len(tail)

    def text(self) -> bytes:
        return b"".join(self._chunks)

    def end(self) -> "End":
        """What the last events say."""
        return read_end(self.text())


class End(msgspec.Struct, frozen=True):
    """How a stream ended: `done` when it said so, `error` when it said that. Tokens are None when it does not say."""

    done: bool
    error: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Event(msgspec.Struct):
    usage: _Usage | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Event)


def read_end(tail: bytes) -> End:
    """Parses the events of `tail`, the last one first, until it has the usage. A first, cut event is passed over."""
    done = False
    for line in reversed(tail.replace(b"\r\n", b"\n").split(b"\n")):
        field, colon, value = line.partition(b":")
        if not colon or field != b"data":
            continue
        value = value.strip()
        if value == b"[DONE]":
            done = True
            continue
        try:
            event = _DECODER.decode(value)
        except msgspec.DecodeError:
            continue
        if event.error is not None:
            return End(done, error=error_text(event.error))
        if event.usage is not None:
            details = event.usage.prompt_tokens_details
            return End(
                done,
                None,
                event.usage.prompt_tokens,
                event.usage.completion_tokens,
                details.cached_tokens if details else None,
            )
    return End(done)


def error_text(error: Any) -> str:
    """The message of an OpenAI-shaped error object, or the object itself."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return error if isinstance(error, str) else msgspec.json.encode(error).decode()
