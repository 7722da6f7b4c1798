"""A bound on what the index knows, and what it gives up first when it is reached.

Blocks go from the ends of prompts, a whole run at a time and in all its places at once: first what is in no HBM, since
it saves least; among equals what is coldest (kvindex/run.py). A run with a claim stays: a plan or a reader counts on
it. Each time a share of the blocks goes, so that the work is spread over the stores that led to it. All that is
inferred of an endpoint goes when some of its blocks do. What is given up is still in its engine: it is used when a
request happens to come there, and a later removal of it is one of an unknown name.
"""

from collections.abc import Callable

from vicinal.kvindex.engine_blocks import EngineBlocks, Oddity
from vicinal.kvindex.inferred import InferredBlocks
from vicinal.kvindex.run import slots_of

BLOCKS_MAX = 8_000_000
"""About 2 GB of memory at 250 bytes per block; the KV of a hundred endpoints with a million tokens each."""

SHARE = 0.1
"""Of the maximum, given up at a time."""


class Limit:
    """Keeps an index at `blocks_max` blocks or less; claimed ones may exceed it.

    `before` is called before any are given up: whoever wants some to go first makes those cold (`BlockIndex.cool`).
    """

    def __init__(self, engines: EngineBlocks, inferred: InferredBlocks, blocks_max: int = BLOCKS_MAX) -> None:
        self.before: Callable[[], None] | None = None
        self._engines = engines
        self._inferred = inferred
        self._blocks_max = blocks_max
        self._look_at = blocks_max

    def keep(self) -> int:
        """Give up blocks if there are too many. Returns how many; they are counted as `Oddity.GIVEN_UP`."""
        index = self._engines.index
        if len(index) <= self._look_at:
            return 0
        if self.before is not None:
            self.before()
        share = int(self._blocks_max * SHARE)
        given_up, holders = index.drop_coldest(len(index) - self._blocks_max + share)
        full = len(index) > self._blocks_max  # of claimed blocks: no use in looking again at once
        self._look_at = len(index) + share if full else self._blocks_max
        for slot in slots_of(holders):
            self._engines.forget_names(slot, given_up)
            self._inferred.forget(slot)
        self._engines.counts[Oddity.GIVEN_UP] += len(given_up)
        return len(given_up)
