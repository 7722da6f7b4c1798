"""What one engine's batches do to our belief about it: apply, replay, clear, begin a new incarnation. No socket in it.

A lost store only hides a block; a lost removal makes us believe in one that is gone. So whatever is lost beyond replay,
a batch that cannot be decoded or has a removal that cannot, and a connection that came back with nobody to say that the
engine is the same, clear what is believed of the endpoint (`BlocksCleared`, reason "gap") before the stream goes on.
Nothing is posted when nothing is believed, as when a feed starts late on a bounded buffer.

What was given up for want of a replay may come back: `incomplete` says so, and `rebuild` begins it.
"""

from collections import Counter
from collections.abc import Callable

from vicinal.domain.events import BlocksCleared, Event
from vicinal.domain.ids import EndpointId
from vicinal.engines.kv_events import DecodeBatch, Ignored, Source, UndecodableBatch, decode_sequence
from vicinal.engines.vllm.events import decode as decode_vllm
from vicinal.gateway.feeds.sequence import SequenceTracker, Step

_STRANGE = frozenset(
    {
        Ignored.UNKNOWN_KIND,
        Ignored.UNKNOWN_MEDIUM,
        Ignored.OTHER_RANK,
        Ignored.MALFORMED_EVENT,
        Ignored.MALFORMED_REMOVAL,
    }
)
Complain = Callable[[str, str], None]
"""Called with the kind of a fault and its text, each time; the driver decides what to log."""


class Following:
    """The state of following one endpoint's KV events.

    `counts` has: batches, events, repeats, gaps, lost_batches, restarts, doubts, replays, replayed_batches, rebuilds,
    other_topic, `undecodable_KIND` and `ignored_REASON`. Batches may be any bytes; `post` must not raise. `incomplete`
    is True while a replay from the start might bring back what was given up, `believes` while anything is believed.
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
        self.incomplete = False
        self.counts: Counter[str] = Counter()
        self._endpoint = endpoint
        self._post = post
        self._complain = complain
        self._tracker = SequenceTracker()
        self._decode = decode
        self._rank = rank
        self._other_groups: set[int] = set()
        self.believes = False
        self._topic: bytes | None = None

    def connected(self) -> None:
        """A connection begins: whoever speaks first on it is the publisher."""
        self._topic = None

    def hear(self, frames: list[bytes]) -> bool:
        """Take a live message `[topic, sequence, payload]`. False: replay first, then `settle` the same message.

        Numbers of several publishers (one per data-parallel rank, say) that a forwarder mixes on one address cannot be
        told apart, so only the first publisher of a connection is followed. The others' messages are counted.
        """
        read = self._read(frames, 3)
        if read is None:
            return True
        if read[0] < 0:
            self._undecodable("sequence", f"a live message has the number {read[0]}")
            return True
        if self._topic is None:
            self._topic = frames[0]
        elif self._topic != frames[0]:
            self.counts["other_topic"] += 1
            self._complain("other_topic", "several publishers behind one address; each needs an address of its own")
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
        if not replayed:
            self.incomplete = True
        self._take(step, *read)

    def doubt(self) -> None:
        """A connection began and no replay says whether the engine behind it is the one from before."""
        self.incomplete = True
        if self.believes:
            self.counts["doubts"] += 1
            self._clear("gap", self._tracker.next)

    def replay_from(self) -> int:
        """The sequence number to ask for when a replay is to begin with its first answer."""
        return 0 if self.incomplete else self._tracker.replay_from()

    def begin_replay(self) -> int:
        """The sequence number to ask the engine for."""
        self.counts["replays"] += 1
        return self._tracker.begin_replay()

    def rebuild(self) -> None:
        """Forget everything, in favour of a replay from 0 that is about to be taken in."""
        self.counts["rebuilds"] += 1
        self._begin_anew("gap")

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
        self.incomplete = True
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
        if batch.ignored[Ignored.MALFORMED_REMOVAL]:
            self._clear("gap", sequence)
            return
        for event in batch.events:
            self.believes = True
            self._post(event)

    def _restart(self) -> None:
        self.counts["restarts"] += 1
        self._begin_anew("restart")

    def _begin_anew(self, reason: str) -> None:
        self.incarnation += 1
        self.incomplete = False
        self._other_groups.clear()
        self._tracker.restart()
        self.believes = False
        self._post(BlocksCleared(self._endpoint, self.incarnation, 0, reason))

    def _clear(self, reason: str, sequence: int) -> None:
        if self.believes:
            self.believes = False
            self._post(BlocksCleared(self._endpoint, self.incarnation, sequence, reason))

    def _undecodable(self, kind: str, text: str) -> None:
        self.counts[f"undecodable_{kind}"] += 1
        self._complain(f"undecodable_{kind}", text)
