"""The HBM of an engine as a pool of KV blocks with a prefix cache, as vLLM keeps it.

A block is blank, in use, or idle. In use means that at least one sequence refers to it. A full block is *sealed* with
the key of its content (enginemodel/chain.py); when its last user lets go of it, it becomes idle: still findable by
key, evicted in least-recently-used order when no blank block is left. Within one chain the tail is let go first, so
that what is evicted last is the prefix that most prompts share.

One key is held by one block: when two sequences compute the same content side by side, the second one's block stays
without key and is blank as soon as it is let go.
"""

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct


class Taken(Struct, frozen=True):
    """`blocks` now belong to the caller, the shared ones first. `evicted` are keys that the pool holds no longer."""

    blocks: list[int]
    evicted: list[int]


class BlockPool:
    """Blocks are numbered from 0. Every block that was taken must be released exactly once per taking."""

    def __init__(self, blocks: int) -> None:
        if blocks < 1:
            raise ValueError(f"a pool needs at least one block, not {blocks}")
        self.blocks = blocks
        self._blank = list(range(blocks - 1, -1, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._holder: dict[int, int] = {}
        self._key: list[int | None] = [None] * blocks
        self._users = [0] * blocks

    @property
    def free(self) -> int:
        """Blocks that can be taken: blank ones and idle ones."""
        return len(self._blank) + len(self._idle)

    @property
    def used(self) -> int:
        return self.blocks - self.free

    @property
    def cached(self) -> int:
        """Blocks that can be found by key, idle or in use."""
        return len(self._holder)

    def match(self, keys: Sequence[int]) -> int:
        """How many leading keys the pool holds."""
        holder = self._holder
        for count, key in enumerate(keys):
            if key not in holder:
                return count
        return len(keys)

    def take(self, shared: Sequence[int], fresh: int) -> Taken | None:
        """Use the blocks that hold the keys `shared` (each must be held), and `fresh` more for new content.

        None, and nothing changes, when they do not fit.
        """
        users, idle = self._users, self._idle
        blocks = [self._holder[key] for key in shared]
        revived = sum(1 for block in blocks if not users[block])
        if fresh > self.free - revived:
            return None
        for block in blocks:
            if not users[block]:
                del idle[block]
            users[block] += 1
        evicted: list[int] = []
        for _ in range(fresh):
            block = self._blank.pop() if self._blank else self._evict(evicted)
            users[block] = 1
            blocks.append(block)
        return Taken(blocks, evicted)

    def seal(self, blocks: Sequence[int], keys: Sequence[int], first: int, last: int) -> list[tuple[int, int]]:
        """Positions `first` to `last` (exclusive) of a chain are full. Returns the runs of positions that are new here.

        A position whose key is held already, by this block or by another, is not new.
        """
        runs: list[tuple[int, int]] = []
        start = first
        for position in range(first, last):
            key = keys[position]
            if key in self._holder:
                if start < position:
                    runs.append((start, position))
                start = position + 1
            else:
                self._holder[key] = blocks[position]
                self._key[blocks[position]] = key
        if start < last:
            runs.append((start, last))
        return runs

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of `blocks`, given in the order of the chain."""
        users, keys, idle, blank = self._users, self._key, self._idle, self._blank
        for block in reversed(blocks):
            users[block] -= 1
            if users[block]:
                continue
            if keys[block] is None:
                blank.append(block)
            else:
                idle[block] = None

    def clear(self) -> bool:
        """Forget all content. Refused (False) while any block is in use."""
        if self.used:
            return False
        while self._idle:
            self._blank.append(self._evict([]))
        return True

    def _evict(self, evicted: list[int]) -> int:
        block, _ = self._idle.popitem(last=False)
        key = self._key[block]
        if key is None:
            raise AssertionError(f"block {block} is idle and has no key")
        self._key[block] = None
        del self._holder[key]
        evicted.append(key)
        return block
