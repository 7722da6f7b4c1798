"""Where a numbered stream of batches stands: in order, repeated, with a hole, or begun anew. No socket in it.

An engine numbers its batches from 0 and starts again at 0 when it restarts; nothing in a batch names the engine's
life. But a batch holds its time stamp, so the *same number with other bytes* means another life. The tracker therefore
remembers fingerprints: of the last `RECENT` batches without a hole between them, which repeats and messages out of
order may show again, and of every batch of a replay, because live messages that waited meanwhile repeat some of them.
A replay asks for up to `LOOK_BACK` batches more than are missing: if they come back unchanged, the life is the same and
what follows continues it. One would do, were it certain to be of the life that is in doubt; behind a forwarder that
hides a restart, the last batch may be the new life's already.

    live number == next                     -> APPLY
    live number  > next                     -> GAP: replay, then ask again
    live number  < next, same fingerprint   -> REPEAT: the replay brought it already
    live number  < next, other fingerprint  -> RESTART
    live number  < next, none remembered    -> DOUBT: a replay that confirms the life makes it a belated repeat,
                                               anything else a restart
"""

from enum import StrEnum

from xxhash import xxh3_64_intdigest

RECENT = 256
LOOK_BACK = 8


class Step(StrEnum):
    """What a batch's number means."""

    APPLY = "apply"
    REPEAT = "repeat"
    GAP = "gap"
    DOUBT = "doubt"
    RESTART = "restart"


class SequenceTracker:
    """One stream. `next` is the number of the first batch that is not applied yet."""

    __slots__ = ("_confirmed", "_fingerprints", "_replaying", "next")

    def __init__(self) -> None:
        self.next = 0
        self._fingerprints: dict[int, int] = {}
        self._confirmed = True
        self._replaying = False

    def heard(self, sequence: int, payload: bytes) -> Step:
        """Judge a live batch; changes nothing."""
        if sequence >= self.next:
            return Step.APPLY if sequence == self.next else Step.GAP
        known = self._fingerprints.get(sequence)
        if known is None:
            return Step.DOUBT
        return Step.REPEAT if known == xxh3_64_intdigest(payload) else Step.RESTART

    def begin_replay(self) -> int:
        """A replay starts: the number to ask for."""
        self._replaying = True
        self._confirmed = self.next == 0
        return self.replay_from()

    def replay_from(self) -> int:
        """The number that a replay asks for now; changes nothing."""
        start = self.next
        while start > self.next - LOOK_BACK and start - 1 in self._fingerprints:
            start -= 1
        return start

    def replayed(self, sequence: int, payload: bytes) -> Step:
        """Judge a replayed batch. GAP also stands for a continuation whose life the replay did not confirm."""
        if sequence < self.next:
            known = self._fingerprints.get(sequence)
            if known is None:
                return Step.REPEAT
            if known != xxh3_64_intdigest(payload):
                return Step.RESTART
            self._confirmed = True
            return Step.REPEAT
        return Step.APPLY if sequence == self.next and self._confirmed else Step.GAP

    def end_replay(self) -> bool:
        """The replay is complete. False when the engine no longer has the last batch applied: it began anew."""
        self._replaying = False
        return self._confirmed

    def break_replay(self) -> None:
        """The replay ended early: nothing follows from what it did not bring."""
        self._replaying = False

    def applied(self, sequence: int, payload: bytes) -> None:
        """`sequence` is applied (after whatever its step called for)."""
        known = self._fingerprints
        if sequence != self.next:
            known.clear()
        known[sequence] = xxh3_64_intdigest(payload)
        while not self._replaying and len(known) > RECENT:
            del known[next(iter(known))]
        self._confirmed = True
        self.next = sequence + 1

    def restart(self) -> None:
        """The engine began anew: its numbers start at 0."""
        self.next = 0
        self._fingerprints.clear()
        self._confirmed = True
        self._replaying = False
