"""The index's figures are complete, follow from what ran, and claim nothing beside a peer that is not there."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from vicinal.cli import bench_index, bench_index_memory, bench_radix
from vicinal.cli.bench_dynamo import PYTHON_VARIABLE, PeerError
from vicinal.cli.bench_index_data import BLOCK_TOKENS, Chain, Population
from vicinal.kvindex.engine_blocks import EngineBlocks
from vicinal.kvindex.index import BlockIndex


@pytest.fixture
def no_peer(monkeypatch):
    monkeypatch.setattr(bench_index, "peer_type", lambda: None)


@pytest.mark.mission("B16")
def test_without_a_peer_there_is_no_ratio_and_only_memory_is_held_to_an_aim(no_peer):
    found = {figure.name: figure for figure in bench_index.figures(scale=1)}
    assert len([name for name in found if name.startswith("match")]) == 8
    assert all(figure.value > 0 for figure in found.values())
    assert all(figure.peer is None and figure.ratio is None for figure in found.values())
    held = {name: figure for name, figure in found.items() if figure.holds is not None}
    assert list(held) == ["memory per block at 2 holders, engines' names included"]
    (memory,) = held.values()
    assert memory.holds is (memory.value <= memory.aim)


class StandIn:
    """In the place of the peer: it remembers which worker stored which block, and finds what it was told."""

    def __init__(self):
        self.blocks = {}

    def apply_event(self, worker_id, kv_cache_event_bytes):
        data = json.loads(kv_cache_event_bytes)["data"]
        for block in data.get("stored", {"blocks": ()})["blocks"]:
            self.blocks.setdefault(worker_id, {})[block["block_hash"]] = block["tokens_hash"]
        for name in data.get("removed", {"block_hashes": ()})["block_hashes"]:
            del self.blocks[worker_id][name]

    def find_matches(self, sequence, early_exit=False):
        return self

    @property
    def scores(self):
        return self.blocks


def test_beside_a_peer_each_speed_is_held_to_its_ratio(monkeypatch):
    monkeypatch.setattr(bench_index, "peer_type", lambda: StandIn)
    monkeypatch.setattr(bench_index_memory, "bytes_per_block", lambda kind, holders, blocks: 100.0)
    found = bench_index.figures(scale=1)
    for figure in found:
        if figure.name.startswith(("match", "store", "remove")):
            assert figure.aim == (2.0 if figure.name.startswith("match") else 1.0)
            assert figure.holds is (figure.ratio >= figure.aim)
            expected = figure.peer / figure.value if figure.unit == "us" else figure.value / figure.peer
            assert figure.ratio == pytest.approx(expected)


def test_both_are_told_the_same_blocks():
    prompts = Population.made(16, 32, 8, 4)
    index, peer = BlockIndex(BLOCK_TOKENS), StandIn()
    engines = EngineBlocks(index)
    for chain, slots in prompts.chains():
        for part in chain.cut(5):
            for slot in slots:
                engines.apply(slot, part.stored())
                peer.apply_event(slot, part.stored_json())
    assert not engines.counts
    for slot in range(16):
        assert index.blocks_held(slot) == len(peer.blocks[slot])
        for name, block in peer.blocks[slot].items():
            assert index.names.called(slot, name) == block
    first = index.match(prompts.prompts()[0].tobytes(), 16).ready
    assert sorted(first.tolist()) == [8] * 14 + [32] * 2
    for chain, slots in prompts.chains():
        for slot in slots:
            engines.apply(slot, chain.removed())
            peer.apply_event(slot, chain.removed_json())
    assert len(index) == 0
    assert not any(peer.blocks.values())


def test_a_chain_is_cut_into_pieces_that_name_their_parents():
    chain = Chain.made(np.random.default_rng(0), 10)
    pieces = chain.cut(4)
    assert [len(piece.blocks) for piece in pieces] == [4, 4, 2]
    assert [piece.parent for piece in pieces] == [None, int(chain.names[3]), int(chain.names[7])]


@pytest.mark.skipif(find_spec("dynamo") is not None, reason="the peer can be imported here anyway")
def test_a_named_python_without_the_peer_is_an_error(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {tmp_path}\n")
    python.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    monkeypatch.setattr(sys, "path", [*sys.path])
    bench_radix.peer_type.cache_clear()
    with pytest.raises(PeerError, match="has no dynamo that can be imported"):
        bench_radix.peer_type()
    bench_radix.peer_type.cache_clear()
