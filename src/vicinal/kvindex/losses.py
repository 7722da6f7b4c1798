"""Which blocks an engine lost lately, so that a prediction that did not come true can be told from a wrong one.

Between a decision and its execution an engine may evict what the decision counted on, and may have it again (computed
anew) when the answer comes. So the present index does not tell; this log does. It is bounded: what it has forgotten is
taken for lost, because more was lost since than it remembers.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import byteorder

from vicinal.kvindex.hashing import pack_hashes, unpack

KEPT = 8192
"""Losses remembered per slot: 64 KB. At most twice as many for a while."""


@dataclass(slots=True)
class _Log:
    """`blocks` are the latest losses, `before` counts those forgotten; a mark is a position in all of them."""

    blocks: "array[int]" = field(default_factory=lambda: array("Q"))
    before: int = 0
    cleared_at: int = -1


class Losses:
    """Per slot, blocks whose last ready copy went, in the order of the events that said so."""

    def __init__(self) -> None:
        self._slots: dict[int, _Log] = {}

    def note(self, slot: int, blocks: Iterable[int]) -> None:
        """These blocks are not there any more."""
        self.note_packed(slot, pack_hashes([*blocks]))

    def note_packed(self, slot: int, hashes: bytes) -> None:
        """Likewise, with packed hashes."""
        log = self._of(slot)
        if byteorder == "little":
            log.blocks.frombytes(hashes)
        else:
            log.blocks.extend(unpack(hashes))
        if len(log.blocks) >= 2 * KEPT:
            gone = len(log.blocks) - KEPT
            del log.blocks[:gone]
            log.before += gone

    def note_all(self, slot: int) -> None:
        """Nothing is there any more."""
        log = self._of(slot)
        log.blocks.append(0)  # a place of its own, so that marks before and after it differ
        log.cleared_at = log.before + len(log.blocks)

    def forget(self, slot: int) -> None:
        """Another engine has the slot from now on. Marks that were given for it count as old."""
        log = self._of(slot)
        log.before += len(log.blocks) + 1
        log.blocks = array("Q")

    def mark(self, slot: int) -> int:
        """The present moment, for `between`."""
        log = self._slots.get(slot)
        return 0 if log is None else log.before + len(log.blocks)

    def between(self, slot: int, block: int, start: int, stop: int | None = None) -> bool:
        """Whether the slot lost `block`, or everything, between two marks (until now when `stop` is None)."""
        log = self._slots.get(slot)
        if log is None:
            return False
        end = log.before + len(log.blocks) if stop is None else stop
        if start < log.before or start < log.cleared_at <= end:
            return start < end
        return block in log.blocks[start - log.before : end - log.before]

    def _of(self, slot: int) -> _Log:
        log = self._slots.get(slot)
        if log is None:
            log = self._slots[slot] = _Log()
        return log
