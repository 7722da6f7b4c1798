"""A run: a stretch of blocks that nothing tells apart. It is the block group of the directory.

All blocks of a run follow each other without a branch and have the same copies, so one mask says who holds all of
them. Masks are Python integers, bit `slot` for the endpoint in that slot: a set of a thousand endpoints is one
number, and "who holds this and also that" is one `&`.

What a run knows about its copies is in this file alone (`holders`, `filling`, and the three questions asked of them).
A further tier is a further mask here; the tree above only asks whether two runs have the same copies.
"""

from dataclasses import dataclass, field

from vicinal.domain.request import HASH_BYTES


@dataclass(eq=False, slots=True)
class Run:
    """`hashes` is packed, first block first. `children` are keyed by the packed hash of their first block.

    `holders` are the slots with a ready copy of every block of the run. `filling` counts, per slot, the planned
    requests that will make (or reuse) one; `expected` is its keys as a mask. The root is the run without blocks.
    """

    hashes: bytes
    parent: "Run | None" = None
    holders: int = 0
    filling: dict[int, int] = field(default_factory=dict)
    expected: int = 0
    children: dict[bytes, "Run"] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return len(self.hashes) // HASH_BYTES

    @property
    def first(self) -> bytes:
        """The key under which the parent knows this run."""
        return self.hashes[:HASH_BYTES]

    @property
    def idle(self) -> bool:
        """Nobody holds it and nobody will."""
        return not self.holders and not self.filling

    def same_copies(self, other: "Run") -> bool:
        return self.holders == other.holders and self.filling == other.filling

    def sprout(self, hashes: bytes, parent: "Run") -> "Run":
        """A run of these blocks below `parent`, with copies like this one's."""
        return Run(hashes, parent, self.holders, dict(self.filling), self.expected)

    def place(self, block: bytes) -> int:
        """The byte offset of a packed hash in this run; ValueError when it is not in it."""
        at = self.hashes.index(block)
        while at % HASH_BYTES:
            at = self.hashes.index(block, at + 1)
        return at

    def expect(self, slot: int) -> None:
        self.filling[slot] = self.filling.get(slot, 0) + 1
        self.expected |= 1 << slot

    def unexpect(self, slot: int) -> None:
        """Take back one `expect` of this slot; KeyError when there is none."""
        if self.filling[slot] > 1:
            self.filling[slot] -= 1
        else:
            del self.filling[slot]
            self.expected ^= 1 << slot
