"""A run: a stretch of blocks that nothing tells apart. It is the block group of the directory.

All blocks of a run follow each other without a branch and have the same copies, so one mask says who holds all of
them. Masks are Python integers, bit `slot` for the endpoint in that slot: a set of a thousand endpoints is one
number, and "who holds this and also that" is one `&`.

What a run knows about its copies is in this file alone (a mask per tier, `filling`, and the questions asked of them);
the tree above only asks whether two runs have the same copies. Most runs are in HBM only, so the masks of the lower
tiers are one shared tuple of zeros until one of them is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp2, inf, log2
from types import MappingProxyType

from vicinal.domain.request import HASH_BYTES
from vicinal.domain.tier import Tier

_DEPTHS = {tier: number for number, tier in enumerate(Tier)}
DEPTHS = range(len(Tier))
NO_LOWER = (0,) * (len(Tier) - 1)
"""The lower tiers' masks of a run that is in none of them."""

NO_APART = (0,) * len(Tier)
"""Per tier, nobody: all copies go by the common names."""

NO_CLAIMS: Mapping[int, int] = MappingProxyType({})
"""The claims of a run that has none. Most have none, and an empty dict of their own would be most of their size."""

HEAT_HALF_LIFE_S = 300.0
"""In this time the heat of a run that nobody asks for halves."""


def depth(tier: Tier) -> int:
    """A tier as its number, HBM first. Hashing a member of an enum is slow, and HBM is what is nearly always asked."""
    return 0 if tier is Tier.HBM else _DEPTHS[tier]


def heat(warm_s: float, now: float) -> float:
    """How often something was asked for, each time halved every HEAT_HALF_LIFE_S since.

    One number says both how much and since when: `warm_s`, the time at which the heat has fallen to 1.
    """
    return exp2(min((warm_s - now) / HEAT_HALF_LIFE_S, 1000.0))


def slots_of(mask: int) -> list[int]:
    """The slots in a mask, lowest first."""
    slots: list[int] = []
    while mask:
        lowest = mask & -mask
        slots.append(lowest.bit_length() - 1)
        mask ^= lowest
    return slots


@dataclass(eq=False, slots=True)
class Run:
    """`hashes` is packed, first block first. `children` are keyed by the packed hash of their first block.

    `holders` are the slots with a ready copy of every block of the run in HBM, `lower` likewise per tier below it.
    `filling` counts, per slot, the planned requests that will make (or reuse) one in HBM; `expected` is its keys as a
    mask. `leases` counts, per slot, those who read one elsewhere. `warm_s` is when the heat of the run has fallen to 1
    (`heat`), -inf for never asked for. The root is the run without blocks.

    `names` is what engines call the blocks, packed like `hashes`, and is empty when no copy goes by them. The copies of
    the slots in `apart`, a mask per tier, go by names of their own or have none.
    """

    hashes: bytes
    parent: "Run | None" = None
    holders: int = 0
    lower: tuple[int, ...] = NO_LOWER
    filling: Mapping[int, int] = field(default_factory=lambda: NO_CLAIMS)
    expected: int = 0
    leases: Mapping[int, int] = field(default_factory=lambda: NO_CLAIMS)
    warm_s: float = -inf
    names: bytes = b""
    apart: tuple[int, ...] = NO_APART
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
        """Nobody holds it in any tier, nobody will, and nobody reads it."""
        return not (self.holders or self.filling or self.leases) and self.lower == NO_LOWER

    @property
    def held_anywhere(self) -> int:
        """The slots with ready copies in any tier, as a mask."""
        mask = self.holders
        for further in self.lower:
            mask |= further
        return mask

    @property
    def named(self) -> bool:
        """Whether a copy goes by the common names."""
        return any(self.held_in(at) & ~self.apart[at] for at in DEPTHS)

    def same_copies(self, other: "Run") -> bool:
        return (
            self.holders == other.holders
            and self.filling == other.filling
            and self.lower == other.lower
            and self.apart == other.apart
            and self.leases == other.leases
        )

    def only_copy(self, at: int, bit: int) -> bool:
        """Whether the copy of this slot in this tier is all that the run is there for."""
        here = (self.holders == bit and self.lower == NO_LOWER) if not at else self._only_lower(at, bit)
        return here and not self.filling and not self.leases

    def _only_lower(self, at: int, bit: int) -> bool:
        return not self.holders and all(mask == (bit if depth == at else 0) for depth, mask in enumerate(self.lower, 1))

    def sprout(self, hashes: bytes, names: bytes, parent: "Run") -> "Run":
        """A run of these blocks below `parent`, with copies like this one's, as warm."""
        filling = dict(self.filling) if self.filling else NO_CLAIMS
        leases = dict(self.leases) if self.leases else NO_CLAIMS
        return Run(
            hashes, parent, self.holders, self.lower, filling, self.expected, leases, self.warm_s, names, self.apart
        )

    def held_in(self, at: int) -> int:
        """The slots with ready copies in the tier of depth `at`, as a mask."""
        return self.lower[at - 1] if at else self.holders

    def gain(self, at: int, bit: int, *, apart: bool) -> None:
        """The slot of `bit` has copies in the tier of depth `at` now; `apart` if they go by no common name."""
        self._flip(at, bit)
        if apart:
            self.set_apart(at, bit)

    def lose(self, at: int, bit: int) -> None:
        """The slot of `bit` has no copies there any more."""
        self._flip(at, bit)
        if self.apart[at] & bit:
            self.set_apart(at, bit)

    def set_apart(self, at: int, bit: int) -> None:
        """Turn around whether the copies of this slot go by the common names."""
        changed = (*self.apart[:at], self.apart[at] ^ bit, *self.apart[at + 1 :])
        self.apart = changed if any(changed) else NO_APART

    def _flip(self, at: int, bit: int) -> None:
        if at:
            changed = (*self.lower[: at - 1], self.lower[at - 1] ^ bit, *self.lower[at:])
            self.lower = changed if any(changed) else NO_LOWER
        else:
            self.holders ^= bit

    def place(self, block: bytes) -> int:
        """The byte offset of a packed hash in this run; ValueError when it is not in it. It looks from the end, where
        engines evict and go on."""
        at = self.hashes.rindex(block)
        while at % HASH_BYTES:
            at = self.hashes.rindex(block, 0, at + HASH_BYTES - 1)
        return at

    def expect(self, slot: int) -> None:
        self.filling = _one_more(self.filling, slot)
        self.expected |= 1 << slot

    def unexpect(self, slot: int) -> None:
        """Take back one `expect` of this slot; KeyError when there is none."""
        self.filling = _one_less(self.filling, slot)
        if slot not in self.filling:
            self.expected ^= 1 << slot

    def lease(self, slot: int) -> None:
        self.leases = _one_more(self.leases, slot)

    def release(self, slot: int) -> None:
        """Take back one `lease` of this slot; KeyError when there is none."""
        self.leases = _one_less(self.leases, slot)

    def warm(self, now: float) -> None:
        """Somebody asked for it: its heat grows by 1."""
        self.warm_s = now + HEAT_HALF_LIFE_S * log2(1.0 + heat(self.warm_s, now))


def _one_more(claims: Mapping[int, int], slot: int) -> Mapping[int, int]:
    if not isinstance(claims, dict):
        return {slot: 1}
    claims[slot] = claims.get(slot, 0) + 1
    return claims


def _one_less(claims: Mapping[int, int], slot: int) -> Mapping[int, int]:
    if claims[slot] == 1 and len(claims) == 1:
        return NO_CLAIMS
    assert isinstance(claims, dict)
    if claims[slot] > 1:
        claims[slot] -= 1
    else:
        del claims[slot]
    return claims
