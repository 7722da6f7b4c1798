"""What the index says about one prompt: an array per question, one element per endpoint.

A slot's usable prefix ends at the first block it lacks. Walking down the runs, the set of slots still in the race only
shrinks; each time it does, those that drop out have their answer. So the walk yields a few disjoint masks with a
length each, and only these are turned into arrays, all at once.
"""

from collections.abc import Sequence
from struct import pack

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

    __slots__ = ("_ready", "_slots", "_steps", "expected")

    def __init__(self, stretches: Sequence[Stretch], slots: int) -> None:
        # The masks are taken now: runs change with the next event.
        self._steps = [(run.holders, run.expected, run.lower, stop - start) for run, start, stop in stretches]
        self._slots = slots
        self._ready: NDArray[np.int32] | None = None
        self.expected = _lengths([(ready | filling, size) for ready, filling, _, size in self._steps], slots)

    @property
    def ready(self) -> NDArray[np.int32]:
        if self._ready is None:
            self._ready = _lengths([(ready, size) for ready, _, _, size in self._steps], self._slots)
        return self._ready

    def reach(self, tier: Tier) -> NDArray[np.int32]:
        """Blocks of the prompt, from its start, each of which is expected in HBM or ready in a tier down to `tier`.

        Never less than `expected`, which is what HBM reaches. What a slot has in a remote store is what it announced.
        """
        if all(lower is NO_LOWER for _, _, lower, _ in self._steps):
            return self.expected
        counted = depth(tier)
        reached: list[tuple[int, int]] = []
        for ready, filling, lower, size_bytes in self._steps:
            mask = ready | filling
            for further in lower[:counted]:
                mask |= further
            reached.append((mask, size_bytes))
        return _lengths(reached, self._slots)

    def ready_at(self, slot: int) -> int:
        """One element of `ready`, without the others."""
        blocks_bytes = 0
        for mask, _, _, size_bytes in self._steps:
            if not mask >> slot & 1:
                break
            blocks_bytes += size_bytes
        return blocks_bytes // HASH_BYTES


_FEW_SLOTS = 64
"""Up to this many slots, looking at the bits one by one takes less time than numpy takes to begin."""


def _lengths(walk: Sequence[tuple[int, int]], slots: int) -> NDArray[np.int32]:
    """Per slot, the blocks of the leading steps whose masks all have it. A step is (mask, bytes of hashes)."""
    racing = (1 << slots) - 1
    masks: list[int] = []
    lengths: list[int] = []
    done_bytes = 0
    for mask, size_bytes in walk:
        left = racing & mask
        if left != racing:
            if done_bytes:
                masks.append(racing ^ left)
                lengths.append(done_bytes)
            racing = left
            if not racing:
                break
        done_bytes += size_bytes
    if racing and done_bytes:
        masks.append(racing)
        lengths.append(done_bytes)
    if slots <= _FEW_SLOTS:
        return _spread(masks, lengths, slots)
    if not masks:
        blocks = np.zeros(slots, dtype=np.int32)
    else:
        mask_bytes = (slots + 7) // 8
        packed = b"".join([mask.to_bytes(mask_bytes, "little") for mask in masks])
        table = np.frombuffer(packed, dtype=np.uint8).reshape(len(masks), mask_bytes)
        bits = np.unpackbits(table, axis=1, count=slots, bitorder="little")
        # A slot is in one mask at most. float32 is exact for such lengths and, unlike int32, multiplies through BLAS.
        rows = np.array(lengths, dtype=np.float32) / HASH_BYTES
        blocks = (rows @ bits.astype(np.float32)).astype(np.int32)
    blocks.flags.writeable = False
    return blocks


def _spread(masks: Sequence[int], lengths_bytes: Sequence[int], slots: int) -> NDArray[np.int32]:
    """Each mask's length in the places of its bits, 0 elsewhere. The commonest length is filled in, the others are set
    bit by bit. An array on bytes is read-only, and takes half as long to make as one of a list."""
    rest = (1 << slots) - 1
    commonest = commonest_slots = 0
    for mask, length_bytes in zip(masks, lengths_bytes, strict=True):
        rest ^= mask
        if (held := mask.bit_count()) > commonest_slots:
            commonest, commonest_slots = length_bytes, held
    if rest.bit_count() > commonest_slots:
        commonest = 0
    blocks = [commonest // HASH_BYTES] * slots
    for mask, length_bytes in ((rest, 0), *zip(masks, lengths_bytes, strict=True)):
        if length_bytes == commonest:
            continue
        length = length_bytes // HASH_BYTES
        while mask:
            lowest = mask & -mask
            blocks[lowest.bit_length() - 1] = length
            mask ^= lowest
    return np.frombuffer(pack(f"{slots}i", *blocks), dtype=np.int32)
