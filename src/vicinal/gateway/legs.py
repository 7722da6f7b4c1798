"""One leg of a plan on its way: a sink for an engine's response that tells its exchange what came.

A `HeldLeg` keeps the answer until it is whole, so an engine that dies in the middle has cost its client nothing. A
`StreamLeg` does so until the first event is whole, and then passes bytes through as they are.
"""

from collections.abc import Callable
from typing import Protocol

from vicinal.domain.plan import Leg
from vicinal.engines.errors import EngineError, ErrorRules
from vicinal.engines.handover import PrefillLeg
from vicinal.gateway.tally import StreamTally
from vicinal.gateway.upstream import Call

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
_EVENT_BYTES = 64 * 1024


class LegOwner(Protocol):
    """The exchange, as its leg sees it. Each leg ends with exactly one of the last four."""

    def stream_opened(self, leg: "StreamLeg", content_type: bytes, first: bytes) -> Callable[[bytes], None]:
        """Returns where the bytes that follow go."""
        ...

    def stream_ended(self, leg: "StreamLeg") -> None: ...

    def answered(self, leg: "HeldLeg", status: int, content_type: bytes, body: bytes) -> None: ...

    def refused_in_stream(self, leg: "HeldLeg", error: EngineError) -> None: ...

    def leg_failed(self, leg: "HeldLeg", reason: str) -> None: ...


class HeldLeg:
    """Collects a response of up to `answer_bytes`. `errors` are the rules of the engine's dialect. A prefill leg has
    `prefill`, which made its body and reads its answer; a decode leg that left together with one has `met` it."""

    def __init__(self, owner: LegOwner, leg: Leg, attempt: int, answer_bytes: int, errors: ErrorRules) -> None:
        self.leg = leg
        self.attempt = attempt
        self.errors = errors
        self.call: Call | None = None
        self.prefill: PrefillLeg | None = None
        self.met = False
        self._owner = owner
        self._answer_bytes = answer_bytes
        self._status = 0
        self._content_type = b""
        self._held: list[bytes] = []
        self._held_bytes = 0

    def drop(self) -> None:
        """Nobody wants it any more: close its connection."""
        self.prefill = None
        call, self.call = self.call, None
        if call is not None:
            call.cancel()

    def head(self, status: int, content_type: bytes) -> None:
        self._status = status
        self._content_type = content_type

    def data(self, chunk: bytes) -> None:
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        if self._held_bytes > self._answer_bytes:
            self.drop()
            self._owner.leg_failed(self, f"the engine's answer exceeds {self._answer_bytes} bytes")

    def end(self) -> None:
        self._owner.answered(self, self._status, self._content_type, b"".join(self._held))

    def failed(self, reason: str) -> None:
        self._owner.leg_failed(self, reason)


class StreamLeg(HeldLeg):
    """Passes a stream through, in whole events: what follows one that an engine broke off could not be read.

    What is no stream (an error, an unstreamed answer) is held like any other.
    """

    def __init__(self, owner: LegOwner, leg: Leg, attempt: int, answer_bytes: int, errors: ErrorRules) -> None:
        super().__init__(owner, leg, attempt, answer_bytes, errors)
        self.tally = StreamTally(errors)
        self._streaming = False
        self._pass_on: Callable[[bytes], None] | None = None
        self._rest = b""

    def head(self, status: int, content_type: bytes) -> None:
        super().head(status, content_type)
        self._streaming = status == 200 and content_type.startswith(b"text/event-stream")

    def data(self, chunk: bytes) -> None:
        if self._pass_on is not None:
            self.tally.add(chunk)
            if self._rest or not chunk.endswith(_EVENT_ENDS):
                chunk = self._whole_events(chunk)
            if chunk:
                self._pass_on(chunk)
        elif self._streaming:
            self._hold_first_event(chunk)
        else:
            super().data(chunk)

    def end(self) -> None:
        if self._pass_on is not None:
            self._owner.stream_ended(self)
        elif self._streaming:
            self._owner.leg_failed(self, "the engine's stream ended before its first event")
        else:
            super().end()

    def failed(self, reason: str) -> None:
        """What breaks after a stream has said that it is done takes nothing from its client."""
        if self._pass_on is not None and self.tally.complete:
            self._owner.stream_ended(self)
        else:
            super().failed(reason)

    def _hold_first_event(self, chunk: bytes) -> None:
        """vLLM opens a stream before it has a token; only its first event tells whether it will have any."""
        self._held.append(chunk)
        first = b"".join(self._held)
        if not _ended(first) and len(first) < _EVENT_BYTES:
            self._held = [first]
            return
        error = self.errors.of_event(first)
        if error is not None:
            self.drop()
            self._owner.refused_in_stream(self, error)
            return
        self._held = []
        self.tally.add(first)
        self._pass_on = self._owner.stream_opened(self, self._content_type, self._whole_events(first))

    def _whole_events(self, chunk: bytes) -> bytes:
        """What is whole with `chunk`. The rest waits, up to a bound: an event that is longer goes in parts."""
        held = self._rest + chunk
        end = max(at + len(ending) if (at := held.rfind(ending)) >= 0 else 0 for ending in _EVENT_ENDS)
        if len(held) - end > _EVENT_BYTES:
            end = len(held)
        self._rest = held[end:]
        return held[:end]


def _ended(held: bytes) -> bool:
    return any(ending in held for ending in _EVENT_ENDS)
