"""The directory of block groups as people read it: where each group is, in which tier, in which state, how warm."""

from collections.abc import Mapping
from dataclasses import dataclass

from vicinal.domain.ids import BlockHash
from vicinal.domain.tier import Tier
from vicinal.kvindex.copies import CopyState, state_of
from vicinal.kvindex.hashing import unpack
from vicinal.kvindex.run import Run, depth, heat, slots_of


@dataclass(frozen=True, slots=True)
class Copy:
    """A group's copy in one tier of a slot. `plans` and `readers` are how many claims stand on it, `epoch` is the
    incarnation of its engine; None where no engine said that it is there."""

    slot: int
    tier: Tier
    state: CopyState
    plans: int
    readers: int
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A block group: blocks in a row with the same copies. `first` and `last` name the prefixes that end there.

    `warm_s` is when its heat has fallen to 1, -inf for a group that no request asked for (kvindex/run.py).
    """

    first: BlockHash
    last: BlockHash
    blocks: int
    copies: tuple[Copy, ...]
    warm_s: float

    def heat(self, now: float) -> float:
        """How often it was asked for, each time halved every HEAT_HALF_LIFE_S since."""
        return heat(self.warm_s, now)


def group_of(run: Run, epochs: Mapping[int, int]) -> Group:
    """A run as a group; `epochs` is by slot. Copies are ordered by slot, then by tier; absent ones are left out."""
    blocks = unpack(run.hashes)
    copies: list[Copy] = []
    for slot in slots_of(run.held_anywhere | run.expected):
        plans, readers = run.filling.get(slot, 0), run.leases.get(slot, 0)
        for tier in Tier:
            ready = bool(run.held_in(depth(tier)) >> slot & 1)
            counted = plans if tier is Tier.HBM else 0  # a planned request fills, and reads, HBM
            state = state_of(ready, bool(counted), bool(readers))
            if state is not CopyState.ABSENT:
                copies.append(Copy(slot, tier, state, counted, readers, epochs.get(slot)))
    return Group(BlockHash(blocks[0]), BlockHash(blocks[-1]), run.blocks, tuple(copies), run.warm_s)
