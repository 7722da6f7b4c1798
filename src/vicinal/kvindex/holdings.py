"""The runs with their ready copies, counted, and the common names of those that go by one (common_names.py)."""

import heapq
import sys
from collections import Counter
from itertools import count

from vicinal.domain.request import HASH_BYTES
from vicinal.kvindex.hashing import unpack
from vicinal.kvindex.run import DEPTHS, Run, slots_of
from vicinal.kvindex.tree import RunTree

SPARSE_BYTES = 400
"""A dict of more bytes than this per entry is mostly empty; a full one has about 40."""


class Holdings:
    """`held` counts ready copies per tier and slot, `named` finds a block by its common name. Whatever changes a run's
    copies changes these with it."""

    def __init__(self, tree: RunTree) -> None:
        self.tree = tree
        self.held: list[Counter[int]] = [Counter() for _ in DEPTHS]
        self.named: dict[int, int] = {}

    def lose(self, slot: int, run: Run, start: int, stop: int, at: int) -> None:
        """Take a slot's copies from a stretch of a run; the tree is to be settled afterwards."""
        bit = 1 << slot
        self.held[at][slot] -= (stop - start) // HASH_BYTES
        if stop == len(run.hashes) and not run.children and run.only_copy(at, bit):
            self._forget_names(run.names[start:])
            self.tree.trim(run, start)
            return
        part = self.tree.carve(run, start, stop)
        part.lose(at, bit)
        self.forget_unused_names(part)

    def drop_coldest(self, blocks: int) -> tuple[set[int], int]:
        """Drop at least so many blocks, all copies of them, or as many as no claim is on: from the ends of prompts, in
        whole runs, first those in no HBM, then the coldest. Returns the blocks, and who held some of them, as a mask.

        Takes time in proportion to the runs of the whole index.
        """
        order = count()
        ends = [_end(run, next(order)) for run in self.tree.runs() if _can_go(run)]
        heapq.heapify(ends)
        dropped: set[int] = set()
        holders = 0
        while ends and len(dropped) < blocks:
            run = heapq.heappop(ends)[-1]
            parent = run.parent
            holders |= run.held_anywhere
            dropped.update(unpack(run.hashes))
            for at in DEPTHS:
                self.held[at].subtract(dict.fromkeys(slots_of(run.held_in(at)), run.blocks))
            self._forget_names(run.names)
            self.tree.trim(run, 0)
            if parent is not None and parent is not self.tree.root and _can_go(parent):
                heapq.heappush(ends, _end(parent, next(order)))
        self.tree.settle()
        return dropped, holders

    def shrink(self) -> None:
        """Give memory back after much was dropped: a dict keeps the room of all that was ever in it."""
        if sys.getsizeof(self.tree.where) > SPARSE_BYTES * (len(self.tree.where) + 100):
            self.tree.where = dict(self.tree.where)
        if sys.getsizeof(self.named) > SPARSE_BYTES * (len(self.named) + 100):
            self.named = dict(self.named)

    def forget_unused_names(self, run: Run) -> None:
        if run.names and not run.named:
            self._forget_names(run.names)
            run.names = b""

    def _forget_names(self, names: bytes) -> None:
        for name in unpack(names):
            del self.named[name]


def _can_go(run: Run) -> bool:
    return not run.children and not run.filling and not run.leases


def _end(run: Run, number: int) -> tuple[bool, float, int, Run]:
    """What is dropped first sorts first; `number` makes the order complete."""
    return bool(run.holders), run.warm_s, number, run
