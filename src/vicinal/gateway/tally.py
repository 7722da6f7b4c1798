"""Counts a stream while it passes: events, and the last bytes, which say how much it was and whether it ended well."""

from vicinal.engines.answers import Usage, stream_is_complete, stream_usage
from vicinal.engines.errors import EngineError, ErrorRules

TAIL_BYTES = 2048
"""Enough for an engine's last events: finish reason, usage, `[DONE]`."""

_EVENT_END = b"\n\n"


class StreamTally:
    """A JSON string has no raw line end, so an empty line ends an event, whatever text the event carries."""

    __slots__ = ("_errors", "_events", "_tail")

    def __init__(self, errors: ErrorRules) -> None:
        self._errors = errors
        self._events = 0
        self._tail = b""

    def add(self, chunk: bytes) -> None:
        """The next bytes, cut anywhere."""
        tail = self._tail
        if chunk[0] == 10 and tail[-1:] == b"\n" and tail[-2:] != _EVENT_END:
            self._events += 1
        self._events += chunk.count(_EVENT_END)
        self._tail = (tail + chunk)[-TAIL_BYTES:]

    @property
    def complete(self) -> bool:
        """The stream said that it is done."""
        return stream_is_complete(self._tail)

    @property
    def error(self) -> EngineError | None:
        """The error with which the stream ended in order, if it did."""
        return self._errors.at_end(self._tail)

    @property
    def usage(self) -> Usage:
        """What the engine states; all None when it states nothing."""
        return stream_usage(self._tail)

    def tokens(self, *, chat: bool) -> int:
        """Output tokens as the number of events that carry some: without `[DONE]`, without a chat's opening event.

        A lower bound for engines that put several tokens into one event. For streams without a usage event.
        """
        return max(0, self._events - 1 - int(chat))
