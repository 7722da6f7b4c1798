"""A run: a stretch of blocks that nothing tells apart. It is the block group of the directory.

All blocks of a run follow each other without a branch and have the same copies, so one mask says who holds all of
them. Masks are Python integers, bit `slot` for the endpoint in that slot: a set of a thousand endpoints is one
number, and "who holds this and also that" is one `&`.

What a run knows about its copies is in this file alone (a mask per tier, `filling`, and the questions asked of them);
the tree above only asks whether two runs have the same copies. Most runs are in HBM only, so the masks of the lower
tiers are one shared tuple of zeros until one of them is needed.
"""

from dataclasses import dataclass, field

from vicinal.domain.request import HASH_BYTES
from vicinal.domain.tier import Tier

_DEPTHS = {tier: number for number, tier in enumerate(Tier)}
DEPTHS = range(len(Tier))
NO_LOWER = (0,) * (len(Tier) - 1)
"""The lower tiers' masks of a run that is in none of them."""


def depth(tier: Tier) -> int:
    """A tier as its number, HBM first. Hashing a member of an enum is slow, and HBM is what is nearly always asked."""
    return 0 if tier is Tier.HBM else _DEPTHS[tier]


@dataclass(eq=False, slots=True)
class Run:
    """`hashes` is packed, first block first. `children` are keyed by the packed hash of their first block.

    `holders` are the slots with a ready copy of every block of the run in HBM, `lower` likewise per tier below it.
    `filling` counts, per slot, the planned requests that will make (or reuse) one in HBM; `expected` is its keys as a
    mask. The root is the run without blocks.
    """

    hashes: bytes
    parent: "Run | None" = None
    holders: int = 0
    lower: tuple[int, ...] = NO_LOWER
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
        """Nobody holds it in any tier, and nobody will."""
        return not self.holders and not self.filling and self.lower == NO_LOWER

    def same_copies(self, other: "Run") -> bool:
        return self.holders == other.holders and self.filling == other.filling and self.lower == other.lower

    def sprout(self, hashes: bytes, parent: "Run") -> "Run":
        """A run of these blocks below `parent`, with copies like this one's."""
        return Run(hashes, parent, self.holders, self.lower, dict(self.filling), self.expected)

    def held_in(self, at: int) -> int:
        """The slots with ready copies in the tier of depth `at`, as a mask."""
        return self.lower[at - 1] if at else self.holders

    def flip(self, at: int, bit: int) -> None:
        """Note that the slot of `bit` has copies in the tier of depth `at` now, or has none there any more."""
        if at:
            changed = (*self.lower[: at - 1], self.lower[at - 1] ^ bit, *self.lower[at:])
            self.lower = changed if any(changed) else NO_LOWER
        else:
            self.holders ^= bit

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
