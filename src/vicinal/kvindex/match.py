"""What the index says about one prompt: an array per question, one element per endpoint.

A slot's usable prefix ends at the first block it lacks. Walking down the runs, the set of slots still in the race only
shrinks; each time it does, those that drop out have their answer. So the walk yields a few disjoint masks with a
length each, and only these are turned into arrays, all at once.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.request import HASH_BYTES
from vicinal.domain.tier import Tier
from vicinal.kvindex.run import NO_LOWER, depth
from vicinal.kvindex.tree import Stretch


class Match:
    """Blocks of a prompt per slot, int32, shape (slots,), contiguous from the prompt's start; read-only.

    `expected` counts blocks with a copy in HBM that is ready or that a planned request will have made by then, `ready`
    only the former, when it is asked for. `reach` looks into the lower tiers too. It is made of a walk from the root
    (`RunTree.follow`), for slots 0 to `slots` - 1.
    """

    def __init__(self, stretches: Sequence[Stretch], slots: int) -> None:
        # The masks are taken now: runs change with the next event.
        self._ready = [(run.holders, stop - start) for run, start, stop in stretches]
        self._slots = slots
        self._lower = [run.lower for run, _, _ in stretches]
        self._expected = [(run.holders | run.expected, stop - start) for run, start, stop in stretches]
        self.expected = _fixed(_lengths(self._expected, slots))

    @cached_property
    def ready(self) -> NDArray[np.int32]:
        return _fixed(_lengths(self._ready, self._slots))

    def reach(self, tier: Tier) -> NDArray[np.int32]:
        """Blocks of the prompt, from its start, each of which is expected in HBM or ready in a tier down to `tier`.

        Never less than `expected`, which is what HBM reaches. What a slot has in a remote store is what it announced.
        """
        if all(lower is NO_LOWER for lower in self._lower):
            return self.expected
        counted = depth(tier)
        reached: list[tuple[int, int]] = []
        for (mask, size_bytes), lower in zip(self._expected, self._lower, strict=True):
            for further in lower[:counted]:
                mask |= further
            reached.append((mask, size_bytes))
        return _fixed(_lengths(reached, self._slots))

    def ready_at(self, slot: int) -> int:
        """One element of `ready`, without the others."""
        blocks_bytes = 0
        for mask, size_bytes in self._ready:
            if not mask >> slot & 1:
                break
            blocks_bytes += size_bytes
        return blocks_bytes // HASH_BYTES


_FEW_SLOTS = 64
"""Up to this many slots, looking at the bits one by one takes less time than numpy takes to begin."""


def _fixed(blocks: NDArray[np.int32]) -> NDArray[np.int32]:
    blocks.flags.writeable = False
    return blocks


def _lengths(walk: Iterable[tuple[int, int]], slots: int) -> NDArray[np.int32]:
    """Per slot, the blocks of the leading steps whose masks all have it. A step is (mask, bytes of hashes)."""
    racing = (1 << slots) - 1
    masks: list[int] = []
    lengths: list[int] = []
    done_bytes = 0
    for mask, size_bytes in walk:
        left = racing & mask
        if left != racing:
            masks.append(racing ^ left)
            lengths.append(done_bytes)
            racing = left
            if not racing:
                break
        done_bytes += size_bytes
    if racing:
        masks.append(racing)
        lengths.append(done_bytes)
    if not any(lengths):
        return np.zeros(slots, dtype=np.int32)
    if slots <= _FEW_SLOTS:
        return _spread(masks, lengths, slots)
    mask_bytes = (slots + 7) // 8
    packed = b"".join([mask.to_bytes(mask_bytes, "little") for mask in masks])
    table = np.frombuffer(packed, dtype=np.uint8).reshape(len(masks), mask_bytes)
    bits = np.unpackbits(table, axis=1, count=slots, bitorder="little")
    # Each slot is in one mask at most. float32 is exact for such lengths and, unlike int32, multiplies through BLAS.
    blocks = np.array(lengths, dtype=np.float32) / HASH_BYTES
    return (blocks @ bits.astype(np.float32)).astype(np.int32)


def _spread(masks: Sequence[int], lengths_bytes: Sequence[int], slots: int) -> NDArray[np.int32]:
    """Each mask's length in the places of its bits."""
    blocks = [0] * slots
    for mask, length_bytes in zip(masks, lengths_bytes, strict=True):
        length = length_bytes // HASH_BYTES
        while length and mask:
            lowest = mask & -mask
            blocks[lowest.bit_length() - 1] = length
            mask ^= lowest
    return np.array(blocks, dtype=np.int32)
