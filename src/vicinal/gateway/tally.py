"""Counts a stream while it passes: events, and the last bytes, which say how much it was and whether it ended well."""

from vicinal.engines.answers import Usage, stream_is_complete, stream_usage
from vicinal.engines.errors import EngineError, ErrorRules

TAIL_BYTES = 2048
"""Enough for an engine's last events: finish reason, usage, `[DONE]`."""

_EVENT_END = b"\n\n"


class StreamTally:
    """A JSON string has no raw line end, so an empty line ends an event, whatever text the event carries.

    A token's few bytes are only kept as they pass, and looked at with those of the next ones.
    """

    __slots__ = ("_errors", "_events", "_new", "_new_bytes", "_seen")

    def __init__(self, errors: ErrorRules) -> None:
        self._errors = errors
        self._events = 0
        self._seen = b""
        self._new: list[bytes] = []
        self._new_bytes = 0

    def add(self, chunk: bytes) -> None:
        """The next bytes, cut anywhere."""
        self._new.append(chunk)
        self._new_bytes += len(chunk)
        if self._new_bytes > TAIL_BYTES:
            self._look()

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
        self._look()
        return max(0, self._events - 1 - int(chat))

    @property
    def _tail(self) -> bytes:
        self._look()
        return self._seen

    def _look(self) -> None:
        """Count the events that ended in what is new. Of what was seen, its last line end may be half of one."""
        if not self._new:
            return
        seen, new = self._seen, b"".join(self._new)
        self._new = []
        self._new_bytes = 0
        if new[0] == 10 and seen[-1:] == b"\n" and seen[-2:] != _EVENT_END:
            self._events += 1
        self._events += new.count(_EVENT_END)
        self._seen = (seen + new)[-TAIL_BYTES:]
