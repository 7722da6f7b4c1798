"""How fast the index is, how small, and how long naming a long prompt's blocks takes, on one core of this machine.

Beside ours stands Dynamo's `RadixTree` where it is installed (cli/bench_radix.py): in the same process, over the same
blocks, in turn. A match is timed to its answer per endpoint; figures are medians. Events are ready objects for ours and
ready JSON for the peer, as each takes them; hashes of blocks are given in both; figures are the best of some turns, for
both, because a turn is long enough for other work to fall into it.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

import vicinal
from vicinal.cli import bench_index_memory as memory
from vicinal.cli.bench_decide import BenchFigure
from vicinal.cli.bench_index_data import BLOCK_TOKENS, Chain, Population
from vicinal.cli.bench_radix import PeerTree, peer_type
from vicinal.kvindex.engine_blocks import EngineBlocks
from vicinal.kvindex.hashing import chain as chain_hashes
from vicinal.kvindex.index import BlockIndex
from vicinal.tokenizer.tokenizer import Tokenizer

_Item = TypeVar("_Item")
_Event = TypeVar("_Event")

MATCH_AIM, APPLY_AIM = 2.0, 1.0
"""How many times the peer's speed is promised."""

BYTES_AIM = 250.0
"""Per block that two endpoints hold."""

SHARES = {"shallow": 1, "deep": 15}
"""Sixteenths of a prompt that all endpoints share."""

TURNS = 5


def figures(scale: int = 100) -> list[BenchFigure]:
    """All figures. `scale` is in percent of the usual amount of data."""
    peer = peer_type()
    found: list[BenchFigure] = []
    for blocks in (128, 2000):
        for endpoints in (16, 1024):
            for sharing, sixteenths in SHARES.items():
                prompts = Population.made(endpoints, blocks, blocks * sixteenths // 16, max(4, 64 * scale // 100))
                found.append(_match(f"match {blocks:,} blocks, {endpoints:,} endpoints, {sharing}", prompts, peer))
    for size in (128, 1):
        found += _apply(size, max(8, (400 if size > 1 else 40) * scale // 100), peer)
    blocks = 300_000 * scale // 100
    for holders in (2, 4, 16):
        found.append(_memory(holders, max(5_000, blocks * 4 // (holders + 2)), peer is not None))
    apart = memory.bytes_per_block(memory.OURS_NAMED_APART, 2, max(5_000, blocks))
    found.append(BenchFigure("memory per block at 2 holders that name it differently", apart, "B"))
    return [*found, *_naming(131_072 * scale // 100)]


def _match(name: str, population: Population, peer: type[PeerTree] | None) -> BenchFigure:
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    tree = None if peer is None else peer()
    for part, slots in population.chains():
        event, event_json = part.stored(), b"" if tree is None else part.stored_json()
        for slot in slots:
            engines.apply(slot, event)
            if tree is not None:
                tree.apply_event(slot, event_json)
    prompts = population.prompts()
    packed, listed = [prompt.tobytes() for prompt in prompts], [prompt.tolist() for prompt in prompts]
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(TURNS):
        ours += _each_us(partial(_ask, index, population.endpoints), packed)
        if tree is not None:
            theirs += _each_us(partial(_ask_peer, tree), listed)
    return _beside(name, median(ours), "us", median(theirs) if theirs else None, MATCH_AIM, faster_is_less=True)


def _ask(index: BlockIndex, endpoints: int, hashes: bytes) -> object:
    return index.match(hashes, endpoints).expected


def _ask_peer(tree: PeerTree, hashes: list[int]) -> object:
    return tree.find_matches(hashes).scores


def _apply(size: int, prompts: int, peer: type[PeerTree] | None) -> list[BenchFigure]:
    """Store prompts of 128 blocks on two of 16 endpoints each, in events of `size` blocks, and remove them."""
    rng = np.random.default_rng(1)
    parts: list[tuple[int, Chain]] = []
    for _ in range(prompts):
        pieces = Chain.made(rng, 128).cut(size)
        parts += [(slot, piece) for slot in rng.choice(16, 2, replace=False).tolist() for piece in pieces]
    stores = [(slot, part.stored()) for slot, part in parts]
    removals = [(slot, part.removed()) for slot, part in reversed(parts)]
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(TURNS):
        engines = EngineBlocks(BlockIndex(BLOCK_TOKENS))
        ours.append((_all_s(engines.apply, stores), _all_s(engines.apply, removals)))
        if peer is not None:
            theirs.append(_apply_peer(peer(), parts))
    blocks = sum(len(part.blocks) for _, part in parts)
    return [
        _beside(
            f"{what}, events of {size} block{'s' * (size > 1)}",
            blocks / min(times[at] for times in ours),
            "blocks/s",
            blocks / min(times[at] for times in theirs) if theirs else None,
            APPLY_AIM,
        )
        for at, what in enumerate(("store", "remove"))
    ]


def _apply_peer(tree: PeerTree, parts: list[tuple[int, Chain]]) -> tuple[float, float]:
    """A match of nothing ends each half: the peer answers it when it has applied what came before."""
    stores = [(slot, part.stored_json()) for slot, part in parts]
    removals = [(slot, part.removed_json()) for slot, part in reversed(parts)]
    found = []
    for events in (stores, removals):
        started_s = time.perf_counter()
        for slot, event in events:
            tree.apply_event(slot, event)
        tree.find_matches([0])
        found.append(time.perf_counter() - started_s)
    return found[0], found[1]


def _memory(holders: int, blocks: int, beside_peer: bool) -> BenchFigure:
    ours = memory.bytes_per_block(memory.OURS, holders, blocks)
    theirs = memory.bytes_per_block(memory.PEER, holders, blocks) if beside_peer else None
    held_to = holders == Population.HOLDERS
    return BenchFigure(
        f"memory per block at {holders} holders, engines' names included",
        ours,
        "B",
        theirs,
        None if theirs is None else theirs / ours,
        BYTES_AIM if held_to else None,
        ours <= BYTES_AIM if held_to else None,
    )


def _naming(tokens: int) -> list[BenchFigure]:
    """Microseconds per 1,000 tokens, of one prompt of about `tokens` tokens."""
    tokenizer = Tokenizer.load(Path(vicinal.__file__).parent / "data" / "tiny-model")
    rng = np.random.default_rng(2)
    text = tokenizer.decode(rng.integers(300, tokenizer.vocab_size, tokens).tolist())
    text = tokenizer.decode(tokenizer.encode(text)[:tokens])  # ids drawn at random are not how the text is read
    ids = tokenizer.encode(text)
    packed = np.array(ids, dtype=np.uint32).tobytes()
    thousands = len(ids) / 1000.0
    found = []
    for what, run in (
        ("tokenise", lambda: tokenizer.encode(text)),
        ("hash the blocks of", lambda: chain_hashes(packed, BLOCK_TOKENS)),
    ):
        run()
        took_us = median(_us(run) for _ in range(TURNS))
        found.append(BenchFigure(f"{what} {len(ids):,} tokens, per 1,000", took_us / thousands))
    return found


def _beside(
    name: str, value: float, unit: str, peer: float | None, aim: float, *, faster_is_less: bool = False
) -> BenchFigure:
    """A figure held to a ratio; without a peer there is no ratio and nothing to hold."""
    if peer is None:
        return BenchFigure(name, value, unit)
    ratio = peer / value if faster_is_less else value / peer
    return BenchFigure(name, value, unit, peer, ratio, aim, ratio >= aim)


def _each_us(run: Callable[[_Item], object], items: Iterable[_Item]) -> list[float]:
    return [_us(partial(run, item)) for item in items]


def _us(run: Callable[[], object]) -> float:
    started_ns = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - started_ns) / 1e3


def _all_s(apply: Callable[[int, _Event], None], events: list[tuple[int, _Event]]) -> float:
    started_s = time.perf_counter()
    for slot, event in events:
        apply(slot, event)
    return time.perf_counter() - started_s
