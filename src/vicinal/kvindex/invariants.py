"""What is always true of the index between two operations, as code.

The tree is well formed (links, keys and the finder agree), coarse (no two runs that should be one), free of dead ends
(every end is held, filling or leased), and its counts add up.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from vicinal.domain.request import HASH_BYTES
from vicinal.kvindex.hashing import unpack
from vicinal.kvindex.run import DEPTHS, NO_APART, NO_CLAIMS, NO_LOWER, Run, slots_of
from vicinal.kvindex.tree import RunTree


class BrokenIndexError(AssertionError):
    """An invariant of the index does not hold; the message says which."""


def check(tree: RunTree, held: Sequence[Mapping[int, int]], named: Mapping[int, int]) -> None:
    """Raises BrokenIndexError unless every invariant of `tree` holds, `held` counts its ready copies, by tier and slot,
    and `named` has its common names and no others."""
    root = tree.root
    _must(not root.hashes and root.idle and root.parent is None, "the root has no blocks, copies or parent")
    _check_children(tree, root)
    known: set[int] = set()
    names: dict[int, int] = {}
    names_seen = 0
    count: list[Counter[int]] = [Counter() for _ in DEPTHS]
    for run in tree.runs():
        _check_run(tree, run)
        _check_children(tree, run)
        blocks = unpack(run.hashes)
        _must(known.isdisjoint(blocks) and len(set(blocks)) == len(blocks), "a block has one place")
        _must(all(tree.where.get(block) is run for block in blocks), "each block is found in its run")
        known.update(blocks)
        names.update(zip(unpack(run.names), blocks, strict=False))
        names_seen += len(unpack(run.names))
        for at in DEPTHS:
            count[at].update(dict.fromkeys(slots_of(run.held_in(at)), run.blocks))
    _must(len(names) == names_seen and names == named, "a common name is of one block, and found")
    _must(len(known) == len(tree.where), "the finder knows no other blocks")
    _must(count == [Counter(of_tier) for of_tier in held], "the ready copies of each slot are counted, by tier")


def _check_run(tree: RunTree, run: Run) -> None:
    size = len(run.hashes)
    _must(0 < size <= tree.run_bytes_max and size % HASH_BYTES == 0, "a run has 1 to the maximum of blocks")
    _must(bool(run.children) or not run.idle, "a path ends in a block that is held, filling or leased")
    _must(any(run.lower) or run.lower is NO_LOWER, "what is in HBM only takes no room for other tiers")
    _must(len(run.names) == (size if run.named else 0), "a run has names when a copy goes by them")
    _must(all(not run.apart[at] & ~run.held_in(at) for at in DEPTHS), "only a copy can be apart")
    _must(any(run.apart) or run.apart is NO_APART, "what has common names takes no room for others")
    for claims in (run.filling, run.leases):
        _must(all(amount > 0 for amount in claims.values()), "claims are counted from 1")
        _must(bool(claims) or claims is NO_CLAIMS, "a run without claims takes no room for them")
    _must(set(slots_of(run.expected)) == set(run.filling), "the expected mask shows the slots that fill")


def _check_children(tree: RunTree, run: Run) -> None:
    for key, child in run.children.items():
        _must(child.parent is run and child.first == key, "a child is known by its first block and knows its parent")
        _must(not tree.joins(run, child), "runs that can be one are one")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenIndexError(f"does not hold: {what}")
