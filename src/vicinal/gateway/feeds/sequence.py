"""Where a numbered stream of batches stands: in order, repeated, with a hole, or begun anew. No socket in it.

An engine numbers its batches from 0 and starts again at 0 when it restarts; nothing in a batch names the engine's
life. But a batch holds its time stamp, so the *same number with other bytes* means another life. The tracker therefore
remembers fingerprints: of every batch of the last replay, because live messages that waited meanwhile repeat some of
them, and of the last batch applied. A replay asks for one batch more than is missing, the last one applied: if it
comes back unchanged, the life is the same and what follows continues it.

    live number == next                     -> APPLY
    live number  > next                     -> GAP: replay, then ask again
    live number  < next, same fingerprint   -> REPEAT: the replay brought it already
    live number  < next, other fingerprint  -> RESTART
    live number  < next, none remembered    -> DOUBT: a replay that confirms the life makes it a belated repeat,
                                               anything else a restart
"""

from enum import StrEnum

from xxhash import xxh3_64_intdigest


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
        return max(0, self.next - 1)

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
        if not self._replaying:
            self._fingerprints.clear()
        self._fingerprints[sequence] = xxh3_64_intdigest(payload)
        self._confirmed = True
        self.next = sequence + 1

    def restart(self) -> None:
        """The engine began anew: its numbers start at 0."""
        self.next = 0
        self._fingerprints.clear()
        self._confirmed = True
        self._replaying = False
