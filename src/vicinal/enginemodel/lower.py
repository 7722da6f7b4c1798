"""What an engine keeps below HBM: host memory, and SSD below that, as vLLM's offloading connector does.

Every full block that comes to be in HBM is copied to every tier below as well (write-through), and each tier evicts by
itself, least recently used first. So a tier below is no overflow of the one above: while it is the larger one it has
all that the other has, and more. A prompt's blocks are used when the prompt is admitted, its first block last; those
that a step completed are stored in their order. Copying down is free: it goes beside the compute, and against the
direction of the reads.
"""

from collections import OrderedDict
from collections.abc import Sequence as Seq

from vicinal.enginemodel.sequence import Sequence
from vicinal.enginemodel.spec import LowerTier
from vicinal.enginemodel.work import BlocksEvicted, BlocksSealed, Output


class LowerCache:
    """The keys that one tier holds, at most `blocks` of them."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._keys: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, key: int) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def touch(self, keys: Seq[int]) -> None:
        """These keys of one chain are used: those that are here are evicted last, the first of them last of all."""
        held = self._keys
        for key in reversed(keys):
            if key in held:
                held.move_to_end(key)

    def store(self, keys: Seq[int]) -> tuple[list[tuple[int, int]], list[int]]:
        """Make room for those of `keys`, a stretch of one chain, that are not here. Returns the runs of their positions
        in `keys`, and what had to go for them. A stretch longer than the tier leaves its end there."""
        held = self._keys
        new = [position for position, key in enumerate(keys) if key not in held]
        for position in new:
            held[keys[position]] = None
        evicted = [held.popitem(last=False)[0] for _ in range(len(held) - self.blocks)]
        if evicted:
            own = {keys[position] for position in new}.intersection(evicted)
            if own:
                new = [position for position in new if keys[position] not in own]
                evicted = [key for key in evicted if key not in own]
        return _runs(new), evicted


class LowerTiers:
    """All tiers below HBM of one engine, nearest first. Appends what changes there to `outputs`."""

    def __init__(self, specs: Seq[LowerTier], outputs: list[Output]) -> None:
        self.specs = specs
        self.caches = [LowerCache(spec.blocks) for spec in specs]
        self._outputs = outputs

    def find(self, keys: Seq[int], first: int) -> list[int]:
        """Where the blocks from position `first` on can be read: how many of them are nearest in each tier. It ends at
        the first block that no tier has; empty when there is none to read."""
        counts = [0] * len(self.caches)
        for position in range(first, len(keys)):
            key = keys[position]
            for at, cache in enumerate(self.caches):
                if key in cache:
                    counts[at] += 1
                    break
            else:
                break
        return counts if any(counts) else []

    def touch(self, keys: Seq[int]) -> None:
        for cache in self.caches:
            cache.touch(keys)

    def store(self, sequence: Sequence, keys: Seq[int], first: int, last: int, at_s: float) -> None:
        """Positions `first` to `last` (exclusive) of a chain are in HBM: each tier keeps them too."""
        stretch = keys[first:last]
        for spec, cache in zip(self.specs, self.caches, strict=True):
            runs, evicted = cache.store(stretch)
            if evicted:
                self._outputs.append(BlocksEvicted(at_s, tuple(evicted), spec.tier))
            for start, stop in runs:
                begin, end = first + start, first + stop
                parent = keys[begin - 1] if begin else None
                tokens, salt = sequence.token_bytes(begin, end), sequence.content.salt
                self._outputs.append(BlocksSealed(at_s, parent, tuple(keys[begin:end]), tokens, salt, spec.tier))


def _runs(positions: Seq[int]) -> list[tuple[int, int]]:
    """Ascending positions as (start, stop) runs."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and runs[-1][1] == position:
            runs[-1] = (runs[-1][0], position + 1)
        else:
            runs.append((position, position + 1))
    return runs
