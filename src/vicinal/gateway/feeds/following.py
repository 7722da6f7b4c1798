"""What one engine's batches do to our belief about it: apply, replay, clear, begin a new incarnation. No socket in it.

A lost store only hides a block; a lost removal makes us believe in one that is gone. So whatever is lost beyond replay,
and a batch that cannot be decoded, clears what is believed of the endpoint (`BlocksCleared`, reason "gap") before the
stream goes on. Nothing is posted when nothing is believed, as when a feed starts late on a bounded buffer.
"""

from collections import Counter
from collections.abc import Callable

from vicinal.domain.events import BlocksCleared, Event
from vicinal.domain.ids import EndpointId
from vicinal.engines.kv_events import DecodeBatch, Ignored, Source, UndecodableBatch, decode_sequence
from vicinal.engines.vllm.events import decode as decode_vllm
from vicinal.gateway.feeds.sequence import SequenceTracker, Step

_STRANGE = frozenset({Ignored.UNKNOWN_KIND, Ignored.UNKNOWN_MEDIUM, Ignored.OTHER_RANK, Ignored.MALFORMED_EVENT})
Complain = Callable[[str, str], None]
"""Called with the kind of a fault and its text, each time; the driver decides what to log."""


class Following:
    """The state of following one endpoint's KV events.

    `counts` has: batches, events, repeats, gaps, lost_batches, restarts, replays, replayed_batches, `undecodable_KIND`
    and `ignored_REASON`. Batches may be any bytes; `post` must not raise.
    """

    def __init__(
        self,
        endpoint: EndpointId,
        post: Callable[[Event], None],
        complain: Complain,
        incarnation: int = 0,
        decode: DecodeBatch = decode_vllm,
        rank: int | None = None,
    ) -> None:
        self.incarnation = incarnation
        self.counts: Counter[str] = Counter()
        self._endpoint = endpoint
        self._post = post
        self._complain = complain
        self._tracker = SequenceTracker()
        self._decode = decode
        self._rank = rank
        self._other_groups: set[int] = set()
        self._believes = False

    def hear(self, frames: list[bytes]) -> bool:
        """Take a live message `[topic, sequence, payload]`. False: replay first, then `settle` the same message."""
        read = self._read(frames, 3)
        if read is None:
            return True
        step = self._live_step(*read)
        if step is Step.GAP:
            self.counts["gaps"] += 1
        if step in (Step.GAP, Step.DOUBT):
            return False
        self._take(step, *read)
        return True

    def settle(self, frames: list[bytes], replayed: bool) -> None:
        """Take a live message for which no more replay will be tried: what is still missing before it is lost.

        `replayed` says that a replay was complete, so the tracker is in the engine's present life.
        """
        read = self._read(frames, 3)
        if read is None:
            return
        step = self._live_step(*read)
        if step is Step.DOUBT and replayed:
            step = Step.REPEAT
        elif step is Step.DOUBT:
            self._restart()
            step = self._live_step(*read)
        self._take(step, *read)

    def begin_replay(self) -> int:
        """The sequence number to ask the engine for."""
        self.counts["replays"] += 1
        return self._tracker.begin_replay()

    def replayed(self, frames: list[bytes]) -> Step | None:
        """Take one message of a replay, `[b"", topic, sequence, payload]` (older builds send no topic).

        None: it ended, and was complete. RESTART: the engine began anew, ask again for all it has.
        """
        read = self._read(frames, 4)
        if read is None:
            return Step.REPEAT
        sequence, payload = read
        if sequence < 0:
            if self._tracker.end_replay():
                return None
            self._restart()
            return Step.RESTART
        step = self._tracker.replayed(sequence, payload)
        if step is Step.RESTART:
            self._restart()
            return step
        if step is not Step.REPEAT:
            self.counts["replayed_batches"] += 1
        self._take(step, sequence, payload)
        return step

    def break_replay(self) -> None:
        """The engine stopped answering in the middle of a replay."""
        self._tracker.break_replay()

    def _read(self, frames: list[bytes], most: int) -> tuple[int, bytes] | None:
        if not 3 <= len(frames) <= most:
            self._undecodable("frames", f"a message has {len(frames)} frames")
            return None
        try:
            return decode_sequence(frames[-2]), frames[-1]
        except UndecodableBatch as error:
            self._undecodable(error.kind, str(error))
            return None

    def _live_step(self, sequence: int, payload: bytes) -> Step:
        step = self._tracker.heard(sequence, payload)
        if step is Step.RESTART:
            self._restart()
            step = self._tracker.heard(sequence, payload)
        return step

    def _take(self, step: Step, sequence: int, payload: bytes) -> None:
        if step is Step.REPEAT:
            self.counts["repeats"] += 1
            return
        if step is Step.GAP:
            self.counts["lost_batches"] += sequence - self._tracker.next
            self._clear("gap", sequence)
        self._tracker.applied(sequence, payload)
        self._apply(sequence, payload)

    def _apply(self, sequence: int, payload: bytes) -> None:
        number = sequence.to_bytes(8, "big", signed=True)
        try:
            source = Source(self._endpoint, self.incarnation, self._rank, self._other_groups)
            batch = self._decode(b"", number, payload, source)
        except UndecodableBatch as error:
            self._undecodable(error.kind, str(error))
            self._clear("gap", sequence)
            return
        self.counts["batches"] += 1
        self.counts["events"] += len(batch.events)
        for reason, number_ignored in batch.ignored.items():
            self.counts[f"ignored_{reason}"] += number_ignored
            if reason in _STRANGE:
                self._complain(f"ignored_{reason}", f"batch {sequence} has events that are left out")
        for event in batch.events:
            self._believes = True
            self._post(event)

    def _restart(self) -> None:
        self.counts["restarts"] += 1
        self.incarnation += 1
        self._other_groups.clear()
        self._tracker.restart()
        self._believes = False
        self._post(BlocksCleared(self._endpoint, self.incarnation, 0, "restart"))

    def _clear(self, reason: str, sequence: int) -> None:
        if self._believes:
            self._believes = False
            self._post(BlocksCleared(self._endpoint, self.incarnation, sequence, reason))

    def _undecodable(self, kind: str, text: str) -> None:
        self.counts[f"undecodable_{kind}"] += 1
        self._complain(f"undecodable_{kind}", text)
