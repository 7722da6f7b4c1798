"""The radix tree of runs: how prefixes branch, kept as coarse as its copies allow.

A path from the root spells a prompt. Whoever wants to change some blocks of a run *carves* them out first, and
afterwards lets the tree *settle*: empty ends fall off, and a run joins its only child when both have the same copies.
So no two runs that could be one stay apart, whatever order events came in.

A block that nobody holds stays while something below it is held or filling: its place in the path is still needed, and
it may come back. Memory is therefore bounded by what engines hold and the paths to it.
"""

from collections.abc import Iterator

from vicinal.domain.request import HASH_BYTES
from vicinal.kvindex.hashing import ROOT, unpack
from vicinal.kvindex.run import Run

Stretch = tuple[Run, int, int]
"""A run and the byte offsets in it between which it agrees with a chain of hashes."""


class RunTree:
    """`where` finds the run of every known block. Offsets are in bytes of packed hashes, multiples of 8."""

    def __init__(self, run_blocks_max: int) -> None:
        self.root = Run(b"")
        self.where: dict[int, Run] = {}
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
        if not hashes:
            return 0
        blocks = unpack(hashes)
        if self.where.keys().isdisjoint(blocks) and len(set(blocks)) == len(blocks):
            return len(hashes)
        seen: set[int] = set()
        for block in blocks:
            if block in self.where or block in seen:
                break
            seen.add(block)
        return len(seen) * HASH_BYTES

    def carve(self, run: Run, start: int, stop: int) -> Run:
        """Make the blocks between two offsets a run of their own, to be changed until the next `settle`.

        What comes before them stays in `run` itself.
        """
        if stop < len(run.hashes):
            self._cut(run, stop)
        if start:
            return self._cut(run, start)
        self._disturbed.append(run)
        return run

    def grow(self, run: Run, offset: int, hashes: bytes, copies: Run) -> None:
        """Add fresh blocks behind `offset` of `run`, with the copies of the model `copies`."""
        if offset < len(run.hashes):
            self._cut(run, offset)
        above = run
        for at in range(0, len(hashes), self.run_bytes_max):
            part = copies.sprout(hashes[at : at + self.run_bytes_max], above)
            above.children[part.first] = part
            self._own(part, part.hashes)
            self._disturbed.append(part)
            above = part

    def settle(self) -> None:
        """Restore the coarse form around all runs that were carved, cut or grown: first drop, then join."""
        if not self._disturbed:
            return
        survivors = [self._drop_dead_end(run) for run in self._disturbed]
        self._disturbed.clear()
        for run in survivors:
            joined: Run | None = run
            while joined is not None:
                run, joined = joined, self._join_only_child(joined)
            if run.parent is not None:
                self._join_only_child(run.parent)

    def _drop_dead_end(self, run: Run) -> Run:
        """Take a run off the tree if nothing needs it, and then those above it; the lowest that stays."""
        parent = run.parent
        while parent is not None and run.idle and not run.children:
            del parent.children[run.first]
            for block in unpack(run.hashes):
                del self.where[block]
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
        if run.parent is None or len(run.children) != 1:
            return None
        (child,) = run.children.values()
        if not self.joins(run, child):
            return None
        run.warm_s = child.warm_s = max(run.warm_s, child.warm_s)
        if child.blocks > run.blocks:
            run.parent.children[run.first] = child
            child.hashes, child.parent, run.parent = run.hashes + child.hashes, run.parent, None
            self.where.update(dict.fromkeys(unpack(run.hashes), child))
            return child
        run.hashes += child.hashes
        run.children, child.parent = child.children, None
        self._own(run, child.hashes)
        return run

    def _cut(self, run: Run, at: int) -> Run:
        """Split a run at an offset inside it; the tail is the new run."""
        tail = run.sprout(run.hashes[at:], run)
        tail.children = run.children
        run.hashes, run.children = run.hashes[:at], {tail.first: tail}
        self._own(tail, tail.hashes)
        self._disturbed += (run, tail)
        return tail

    def _own(self, run: Run, hashes: bytes) -> None:
        self.where.update(dict.fromkeys(unpack(hashes), run))
        for child in run.children.values():
            child.parent = run


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
