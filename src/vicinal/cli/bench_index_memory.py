"""How much memory an index takes, measured in a process of its own: `python -m vicinal.cli.bench_index_memory KIND ...`

Resident memory, because the peer allocates outside of Python, where tracemalloc does not look; a fresh process, because
memory that was used before is not given back to the system and would hide growth. Events are made one prompt at a time
and dropped, and a first part of the blocks is stored before the measuring begins, so that buffers are there already.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from vicinal.cli.bench_index_data import BLOCK_TOKENS, Chain
from vicinal.cli.bench_radix import PeerTree, peer_type
from vicinal.kvindex.engine_blocks import EngineBlocks
from vicinal.kvindex.index import BlockIndex

OURS, OURS_NAMED_APART, PEER = "ours", "ours_named_apart", "peer"
PROMPT_BLOCKS = 250
"""A prompt of 4,000 tokens: nothing is shared between prompts, which is where an index needs most memory per block."""


def bytes_per_block(kind: str, holders: int, blocks: int) -> float:
    """In a fresh process: bytes per block when `blocks` blocks are on `holders` endpoints each, of a fleet of 16.

    `kind` is OURS, PEER, or OURS_NAMED_APART, where each engine has names of its own for the same blocks.
    """
    command = [sys.executable, "-m", __name__, kind, str(holders), str(blocks)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return float(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)


def _measured(kind: str, holders: int, blocks: int) -> float:
    rng = np.random.default_rng(0)
    engines = EngineBlocks(BlockIndex(BLOCK_TOKENS))
    peer_class = peer_type() if kind == PEER else None
    peer: PeerTree | None = None if peer_class is None else peer_class()
    before, counted = 0, 0
    warm_up = blocks // 10
    for number in range((blocks + warm_up) // PROMPT_BLOCKS):
        if not before and number * PROMPT_BLOCKS >= warm_up:
            before, counted = _resident_bytes(), 0
        chain = Chain.made(rng, PROMPT_BLOCKS)
        slots = rng.choice(16, holders, replace=False).tolist()
        if peer is not None:
            event = chain.stored_json()
            for slot in slots:
                peer.apply_event(slot, event)
        else:
            for slot in slots:
                named = chain if kind == OURS else Chain(chain.blocks, Chain.made(rng, PROMPT_BLOCKS).names)
                engines.apply(slot, named.stored())
        counted += PROMPT_BLOCKS
    if peer is not None:
        peer.find_matches(chain.blocks.tolist())  # what is applied is applied by now
    return (_resident_bytes() - before) / counted


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(_measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
