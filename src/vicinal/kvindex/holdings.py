"""The runs with their ready copies, counted, and the common names of those that go by one (common_names.py)."""

from collections import Counter

from vicinal.domain.request import HASH_BYTES
from vicinal.kvindex.hashing import unpack
from vicinal.kvindex.run import DEPTHS, Run
from vicinal.kvindex.tree import RunTree


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

    def forget_unused_names(self, run: Run) -> None:
        if run.names and not run.named:
            self._forget_names(run.names)
            run.names = b""

    def _forget_names(self, names: bytes) -> None:
        for name in unpack(names):
            del self.named[name]
