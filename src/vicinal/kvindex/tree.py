"""The radix tree of runs: how prefixes branch, kept as coarse as its copies allow.

A path from the root spells a prompt. Whoever wants to change some blocks of a run *carves* them out first, and
afterwards lets the tree *settle*: empty ends fall off, and a run joins its only child when both have the same copies.
So no two runs that could be one stay apart, whatever order events came in.

A block that nobody holds stays while something below it is held or filling: its place in the path is still needed, and
it may come back. Memory is therefore bounded by what engines hold and the paths to it.
"""

from collections.abc import Callable, Iterator, Sequence

from vicinal.domain.request import HASH_BYTES
from vicinal.kvindex.hashing import ROOT, unpack
from vicinal.kvindex.run import Run

Stretch = tuple[Run, int, int]
"""A run and the byte offsets in it between which it agrees with a chain of hashes."""


class RunTree:
    """`where` finds the run of every known block. Offsets are in bytes of packed hashes, multiples of 8. `gone` is told
    of blocks that are known no longer."""

    def __init__(self, run_blocks_max: int) -> None:
        self.root = Run(b"")
        self.where: dict[int, Run] = {}
        self.gone: Callable[[Sequence[int]], None] | None = None
        self.run_bytes_max = run_blocks_max * HASH_BYTES
        self._disturbed: list[Run] = []

    def runs(self) -> Iterator[Run]:
        """All runs but the root, parents first."""
        waiting = list(self.root.children.values())
        while waiting:
            run = waiting.pop()
            waiting.extend(run.children.values())
            yield run

    def locate(self, block: int) -> tuple[Run, int] | None:
        """The run of a block and the offset just behind it; None when the block is unknown."""
        if block == ROOT:
            return self.root, 0
        run = self.where.get(block)
        return None if run is None else (run, run.place(block.to_bytes(HASH_BYTES, "little")) + HASH_BYTES)

    def find(self, block: bytes) -> tuple[Run, int]:
        """The run of a known block, packed, and its offset."""
        run = self.where[int.from_bytes(block, "little")]
        return run, run.place(block)

    def above(self, run: Run, block: int) -> int:
        """The block before one of a run's; ROOT for a prompt's first."""
        at, hashes = run.place(block.to_bytes(HASH_BYTES, "little")), run.hashes
        if not at:
            at, hashes = len(run.parent.hashes) if run.parent else 0, run.parent.hashes if run.parent else b""
        return int.from_bytes(hashes[at - HASH_BYTES : at], "little") if at else ROOT

    def follow(self, run: Run, start: int, hashes: bytes) -> tuple[list[Stretch], int]:
        """Walk `hashes` down from offset `start` of `run`: the stretches that agree, and how many bytes they cover."""
        stretches: list[Stretch] = []
        done, end = 0, len(hashes)
        while done < end:
            ours = run.hashes[start:] if start else run.hashes
            theirs = hashes[done : done + len(ours)]
            common = len(ours) if ours == theirs else _common_bytes(ours, theirs)
            if common:
                stretches.append((run, start, start + common))
                done += common
            if common < len(ours):
                break
            child = run.children.get(hashes[done : done + HASH_BYTES])
            if child is None:
                break
            run, start = child, 0
        return stretches, done

    def fresh_bytes(self, hashes: bytes) -> int:
        """How much of `hashes` can be added: up to the first block that has another place already (a collision)."""
        blocks = unpack(hashes)
        if self.all_fresh(blocks):
            return len(hashes)
        seen: set[int] = set()
        for block in blocks:
            if block in self.where or block in seen:
                break
            seen.add(block)
        return len(seen) * HASH_BYTES

    def all_fresh(self, blocks: Sequence[int]) -> bool:
        """Whether none of these blocks is known or comes twice."""
        if len(blocks) == 1:
            return blocks[0] not in self.where
        return self.where.keys().isdisjoint(blocks) and len(set(blocks)) == len(blocks)

    def carve(self, run: Run, start: int, stop: int) -> Run:
        """Make the blocks between two offsets a run of their own, to be changed until the next `settle`.

        Where the rest of the run's blocks are then is open: whichever part is longer stays in `run` itself.
        """
        if stop < len(run.hashes):
            run = self._cut(run, stop)[0]
        if start:
            return self._cut(run, start)[1]
        self._disturbed.append(run)
        return run

    def grow(self, run: Run, offset: int, hashes: bytes, copies: Run, names: bytes = b"") -> None:
        """Add fresh blocks behind `offset` of `run`, with the copies of the model `copies` and these common names."""
        if offset < len(run.hashes):
            run = self._cut(run, offset)[0]
        elif not run.children and run.same_copies(copies) and self.extend(run, hashes, names):
            return
        above = run
        for at in range(0, len(hashes), self.run_bytes_max):
            stop = at + self.run_bytes_max
            part = copies.sprout(hashes[at:stop], names[at:stop], above)
            above.children[part.first] = part
            self._own(part, part.hashes)
            self._disturbed.append(part)
            above = part

    def extend(self, run: Run, hashes: bytes, names: bytes) -> bool:
        """Put fresh blocks with the same copies into a childless run itself: most stores continue a prompt so. False,
        and nothing is changed, when there is no room in it."""
        if run is self.root or len(run.hashes) + len(hashes) > self.run_bytes_max:
            return False
        run.hashes += hashes
        run.names += names
        for block in unpack(hashes):
            self.where[block] = run
        return True

    def trim(self, run: Run, start: int) -> None:
        """Take the blocks from `start` on off a childless run for good; nothing needs them."""
        self._forget(unpack(run.hashes[start:]))
        if start:
            run.hashes, run.names = run.hashes[:start], run.names[:start]
            self._disturbed.append(run)
        elif run.parent is not None:
            del run.parent.children[run.first]
            self._disturbed.append(run.parent)
            run.parent = None

    def settle(self) -> None:
        """Restore the coarse form around all runs that were carved, cut or grown: first drop, then join."""
        if not self._disturbed:
            return
        disturbed, self._disturbed = self._disturbed, []
        for number, run in enumerate(disturbed):
            if not run.children and run.parent is not None and run.idle:
                disturbed[number] = self._drop_dead_end(run)
        for run in disturbed:
            if run.parent is None:
                continue  # the root, or one that has left the tree in the meantime
            joined: Run | None = run
            while joined is not None and len(joined.children) == 1:
                run, joined = joined, self._join_only_child(joined)
            run = run if joined is None else joined
            if run.parent is not None and len(run.parent.children) == 1:
                self._join_only_child(run.parent)

    def _drop_dead_end(self, run: Run) -> Run:
        """Take a run off the tree if nothing needs it, and then those above it; the lowest that stays."""
        parent = run.parent
        while parent is not None and run.idle and not run.children:
            del parent.children[run.first]
            self._forget(unpack(run.hashes))
            run.parent = None
            run, parent = parent, parent.parent
        return run

    def joins(self, run: Run, child: Run) -> bool:
        """Whether a run and its child must be one. The root stays alone."""
        return (
            run is not self.root
            and len(run.children) == 1
            and len(run.hashes) + len(child.hashes) <= self.run_bytes_max
            and run.same_copies(child)
        )

    def _join_only_child(self, run: Run) -> Run | None:
        """Make a run and its only child one, if they must be. The longer lives on: fewer blocks change their run.

        Returns the one; None when they stay two, or `run` is the root or has left the tree in the meantime.
        """
        if len(run.children) != 1 or run.parent is None:
            return None
        (child,) = run.children.values()
        if not self.joins(run, child):
            return None
        if run.warm_s != child.warm_s:
            run.warm_s = child.warm_s = max(run.warm_s, child.warm_s)
        if len(child.hashes) > len(run.hashes):
            run.parent.children[run.first] = child
            child.hashes, child.parent, run.parent = run.hashes + child.hashes, run.parent, None
            child.names = run.names + child.names
            self.where.update(dict.fromkeys(unpack(run.hashes), child))
            return child
        run.hashes += child.hashes
        run.names += child.names
        run.children, child.parent = child.children, None
        self._own(run, child.hashes)
        return run

    def _cut(self, run: Run, at: int) -> tuple[Run, Run]:
        """Split a run at an offset inside it; the new run is the shorter part. Returns both parts."""
        parent = run.parent
        if 2 * at < len(run.hashes) and parent is not None:
            head, tail = run.sprout(run.hashes[:at], run.names[:at], parent), run
            parent.children[run.first] = head
            tail.hashes, tail.names, tail.parent = run.hashes[at:], run.names[at:], head
            head.children = {tail.first: tail}
            self.where.update(dict.fromkeys(unpack(head.hashes), head))
        else:
            head, tail = run, run.sprout(run.hashes[at:], run.names[at:], run)
            tail.children = run.children
            head.hashes, head.names, head.children = run.hashes[:at], run.names[:at], {tail.first: tail}
            self._own(tail, tail.hashes)
        self._disturbed += (head, tail)
        return head, tail

    def _forget(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            del self.where[block]
        if self.gone is not None:
            self.gone(blocks)

    def _own(self, run: Run, hashes: bytes) -> None:
        self.where.update(dict.fromkeys(unpack(hashes), run))
        for child in run.children.values():
            child.parent = run


def common_end_bytes(ours: bytes, theirs: bytes) -> int:
    """The length of the common end of two packed chains, in whole blocks."""
    most = min(len(ours), len(theirs))
    if ours[len(ours) - most :] == theirs[len(theirs) - most :]:
        return most
    low, high = 0, most // HASH_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        size = middle * HASH_BYTES
        low, high = (middle, high) if ours[-size:] == theirs[-size:] else (low, middle - 1)
    return low * HASH_BYTES


def _common_bytes(ours: bytes, theirs: bytes) -> int:
    """The length of the common start of two packed chains, in whole blocks, by bisection."""
    if ours.startswith(theirs):
        return len(theirs)
    low, high = 0, min(len(ours), len(theirs)) // HASH_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        here = slice(low * HASH_BYTES, middle * HASH_BYTES)
        low, high = (middle, high) if ours[here] == theirs[here] else (low, middle - 1)
    return low * HASH_BYTES
