"""What the index says about one prompt: an array per question, one element per endpoint.

A slot's usable prefix ends at the first block it lacks. Walking down the runs, the set of slots still in the race only
shrinks; each time it does, those that drop out have their answer. So the walk yields a few disjoint masks with a
length each, and only these are turned into arrays, all at once.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.domain.request import HASH_BYTES
from vicinal.kvindex.tree import Stretch


class Match(Struct, frozen=True):
    """Blocks of a prompt per slot, int32, shape (slots,), contiguous from the prompt's start.

    `ready` counts blocks with a ready copy; `expected` also those that a planned request will have made by then.
    """

    ready: NDArray[np.int32]
    expected: NDArray[np.int32]


def measure(stretches: Sequence[Stretch], slots: int) -> Match:
    """The match of a walk from the root (`RunTree.follow`) for slots 0 to `slots` - 1."""
    ready = _lengths([(run.holders, stop - start) for run, start, stop in stretches], slots)
    if any(run.expected for run, _, _ in stretches):
        hoped = [(run.holders | run.expected, stop - start) for run, start, stop in stretches]
        return Match(ready, _lengths(hoped, slots))
    return Match(ready, ready.copy())


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
    mask_bytes = (slots + 7) // 8
    packed = b"".join([mask.to_bytes(mask_bytes, "little") for mask in masks])
    table = np.frombuffer(packed, dtype=np.uint8).reshape(len(masks), mask_bytes)
    bits = np.unpackbits(table, axis=1, count=slots, bitorder="little")
    # Each slot is in one mask at most. float32 is exact for such lengths and, unlike int32, multiplies through BLAS.
    blocks = np.array(lengths, dtype=np.float32) / HASH_BYTES
    return (blocks @ bits.astype(np.float32)).astype(np.int32)
