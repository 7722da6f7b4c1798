"""Reads from the tiers below HBM: how long a prompt waits for what it found there.

A tier is a channel that serves one prompt's read after the other, each at the whole rate. What lies in SSD comes
through host memory: it is read into there first, and then goes up with all else that the prompt has below, as vLLM
promotes it.
"""

from collections.abc import Sequence as Seq
from heapq import heappop, heappush
from math import inf

from vicinal.enginemodel.sequence import Phase, Sequence
from vicinal.enginemodel.spec import LowerTier


class Loads:
    """`next_s` is when the next read ends, infinity for never."""

    def __init__(self, tiers: Seq[LowerTier]) -> None:
        self.next_s = inf
        self._tiers = tiers
        self._free_s = [0.0] * len(tiers)
        self._reads: list[tuple[float, int, int, Sequence]] = []
        self._begun = 0

    def begin(self, sequence: Sequence, at_s: float) -> None:
        """Read the blocks that `sequence.loading` counts by tier; its lowest tier is read first."""
        lowest = max(at for at, blocks in enumerate(sequence.loading) if blocks)
        self._read(sequence, lowest, at_s)

    def finished(self, now: float) -> list[tuple[float, Sequence]]:
        """Remove and return the sequences that have all their blocks in HBM by `now`, and since when."""
        done: list[tuple[float, Sequence]] = []
        while self._reads and self._reads[0][0] <= now:
            at_s, _, tier, sequence = heappop(self._reads)
            if sequence.phase is not Phase.LOADING:
                continue  # cancelled: its read went on to the end, and nobody wants what it brought
            if tier:
                self._read(sequence, tier - 1, at_s)
            else:
                done.append((at_s, sequence))
        self._look()
        return done

    def _read(self, sequence: Sequence, tier: int, at_s: float) -> None:
        blocks = sum(sequence.loading[tier:])
        ends_s = max(at_s, self._free_s[tier]) + blocks * self._tiers[tier].s_per_block
        self._free_s[tier] = ends_s
        self._begun += 1
        heappush(self._reads, (ends_s, self._begun, tier, sequence))
        self._look()

    def _look(self) -> None:
        self.next_s = self._reads[0][0] if self._reads else inf
