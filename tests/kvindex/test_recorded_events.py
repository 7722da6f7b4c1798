"""Events recorded from a real vLLM 0.32: stores, evictions, a salted prompt, a second physical copy, a reset."""

import json
import struct
from pathlib import Path

import pytest

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId
from vicinal.kvindex.engine_blocks import EngineBlocks, Oddity
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "vllm-0.32-cpu"
ENGINE = EndpointId("vllm")
BLOCK_TOKENS = 32


def read(name):
    """The recording as (sequence, raw event) in order."""
    with (RECORDINGS / name).open() as lines:
        batches = [json.loads(line) for line in lines]
    return [(batch["seq"], event) for batch in batches for event in batch["decoded"][1]]


def to_domain(sequence, raw):
    match raw["type"]:
        case "BlockStored":
            keys = tuple("\0".join(keys or ()).encode() for keys in raw["extra_keys"])
            tokens = struct.pack(f"<{len(raw['token_ids'])}I", *raw["token_ids"])
            parent, names = raw["parent_block_hash"], tuple(raw["block_hashes"])
            return BlocksStored(ENGINE, 1, sequence, parent, names, tokens, raw["block_size"], keys)
        case "BlockRemoved":
            return BlocksRemoved(ENGINE, 1, sequence, tuple(raw["block_hashes"]))
        case "AllBlocksCleared":
            return BlocksCleared(ENGINE, 1, sequence, "reset")


@pytest.mark.mission("B16")
def test_evictions_leave_what_the_engine_has_and_a_reset_leaves_nothing():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    names = set()
    held_before_reset = None
    for sequence, raw in read("kv_events_evict_salt_reset.jsonl"):
        engines.apply(0, to_domain(sequence, raw))
        index.validate()
        if raw["type"] == "BlockStored":
            names |= set(raw["block_hashes"])
        elif raw["type"] == "BlockRemoved":
            names -= set(raw["block_hashes"])
        else:
            held_before_reset = len(names)
            names = set()
            assert len(index) == index.blocks_held(0) == 0
        assert index.blocks_held(0) == engines.names_held(0) == len(names)
    assert held_before_reset > 0
    assert not engines.counts
    assert index.blocks_held(0) == 2


def test_eviction_takes_blocks_from_the_ends_of_prompts():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    events = read("kv_events_evict_salt_reset.jsonl")
    first = events[0][1]
    prompt = chain(struct.pack(f"<{len(first['token_ids'])}I", *first["token_ids"]), BLOCK_TOKENS)
    lengths = []
    for sequence, raw in events:
        engines.apply(0, to_domain(sequence, raw))
        lengths.append(int(index.match(prompt, 1).ready[0]))
    assert lengths[0] == 10
    assert lengths[4:7] == [9, 8, 7]
    assert lengths[-1] == 0


def test_a_salted_prompt_is_found_only_with_its_salt():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    salted = None
    for sequence, raw in read("kv_events_evict_salt_reset.jsonl"):
        engines.apply(0, to_domain(sequence, raw))
        if raw["type"] == "BlockStored" and raw["extra_keys"][0]:
            salted = struct.pack(f"<{len(raw['token_ids'])}I", *raw["token_ids"])
            break
    blocks = len(salted) // 4 // BLOCK_TOKENS
    assert index.match(chain(salted, BLOCK_TOKENS, ROOT, (b"group-a",)), 1).ready.tolist() == [blocks]
    assert index.match(chain(salted, BLOCK_TOKENS), 1).ready.tolist() == [0]


@pytest.mark.mission("B16")
def test_prompts_of_the_decode_side_match_as_far_as_they_were_stored():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    events = read("kv_events_decode.jsonl")
    for sequence, raw in events:
        engines.apply(0, to_domain(sequence, raw))
    assert not engines.counts
    assert index.blocks_held(0) == len({name for _, raw in events for name in raw["block_hashes"]}) == 41
    # The first two events are one prompt and its continuation.
    tokens = events[0][1]["token_ids"] + events[1][1]["token_ids"]
    prompt = chain(struct.pack(f"<{len(tokens)}I", *tokens), BLOCK_TOKENS)
    assert index.match(prompt, 1).ready.tolist() == [len(unpack(prompt))] == [17]


def test_a_recording_that_starts_late_stores_nothing_until_a_root_is_seen():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    for sequence, raw in read("kv_events_prefill.jsonl"):
        engines.apply(0, to_domain(sequence, raw))
    assert engines.counts == {Oddity.UNKNOWN_PARENT: 2}
    assert len(index) == 0


def test_the_second_physical_copy_in_the_recording_is_one_more_store_of_the_same_block():
    index = BlockIndex(BLOCK_TOKENS)
    engines = EngineBlocks(index)
    decode, prefill = read("kv_events_decode.jsonl"), read("kv_events_prefill.jsonl")
    for sequence, raw in [decode[2], *prefill]:  # both sides computed the same engine hashes
        engines.apply(0, to_domain(sequence, raw))
    assert engines.counts == {Oddity.STORED_AGAIN: 2}
    assert index.blocks_held(0) == 10
