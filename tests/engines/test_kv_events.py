"""The decoder of KV events, against recordings of a real vLLM, both wire forms, and garbage."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId
from vicinal.domain.tier import Tier
from vicinal.engines.kv_events import (
    DecodedBatch,
    Ignored,
    Source,
    UndecodableBatch,
    decode_sequence,
)
from vicinal.engines.kv_fields import extra_key_bytes
from vicinal.engines.sglang import events as sglang_events
from vicinal.engines.vllm import events as vllm_events

UNHURRIED = settings(deadline=None)
"""A machine that is busy with other things is slow at times."""


RECORDINGS = Path(__file__).parents[1] / "fixtures" / "vllm-0.32-cpu"
ENGINE = EndpointId("p0")


def seq(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def packed(*events: Any, rank: int | None = 0) -> bytes:
    return msgspec.msgpack.encode([1.5, list(events), rank])


def source(rank: int | None = None, groups: set[int] | None = None) -> Source:
    return Source(ENGINE, 7, rank, set() if groups is None else groups)


def decode_batch(topic: bytes, sequence: bytes, payload: bytes, incarnation: int = 1) -> DecodedBatch:
    return vllm_events.decode(topic, sequence, payload, Source(ENGINE, incarnation))


def decode(*events: Any, groups: set[int] | None = None) -> DecodedBatch:
    return vllm_events.decode(b"t", seq(3), packed(*events), source(groups=groups))


def stored(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": "BlockStored",
        "block_hashes": [11, 12],
        "parent_block_hash": None,
        "token_ids": [1, 2, 3, 4],
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None, None],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }
    return fields | changes


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDINGS / name).read_text().splitlines()]


@pytest.mark.parametrize("name", ["kv_events_prefill", "kv_events_decode", "kv_events_evict_salt_reset"])
def test_recorded_batches_become_the_events_that_were_recorded(name: str) -> None:
    for row in recorded(f"{name}.jsonl"):
        topic, sequence, payload = (bytes.fromhex(frame) for frame in row["frames_hex"])
        batch = decode_batch(topic, sequence, payload)
        assert (batch.topic, batch.sequence, batch.rank) == (b"kv-events", row["seq"], 0)
        assert not batch.ignored
        assert len(batch.events) == len(row["decoded"][1])
        for event, said in zip(batch.events, row["decoded"][1], strict=True):
            assert (event.endpoint, event.incarnation, event.sequence) == (ENGINE, 1, row["seq"])
            match event:
                case BlocksStored():
                    assert said["type"] == "BlockStored"
                    assert list(event.hashes) == said["block_hashes"]
                    assert event.parent == said["parent_block_hash"]
                    assert list(struct.unpack(f"<{len(said['token_ids'])}I", event.token_ids)) == said["token_ids"]
                    assert event.block_tokens == said["block_size"] == 32
                    assert event.extra_keys == tuple(extra_key_bytes(keys) for keys in said["extra_keys"])
                case BlocksRemoved():
                    assert said["type"] == "BlockRemoved"
                    assert list(event.hashes) == said["block_hashes"]
                case BlocksCleared():
                    assert (said["type"], event.reason) == ("AllBlocksCleared", "reset")


def test_the_recorded_salt_is_what_a_gateway_that_knows_it_computes() -> None:
    salted = [
        event.extra_keys
        for row in recorded("kv_events_evict_salt_reset.jsonl")
        for event in decode_batch(*(bytes.fromhex(f) for f in row["frames_hex"])).events
        if isinstance(event, BlocksStored) and any(event.extra_keys)
    ]
    assert salted
    assert {keys[0] for keys in salted} <= {extra_key_bytes(["group-a"]), extra_key_bytes(["group-b"])}
    assert all(not any(keys[1:]) for keys in salted)


def test_extra_key_bytes_are_fixed() -> None:
    assert extra_key_bytes(None) == extra_key_bytes([]) == b""
    assert extra_key_bytes(["tenantA"]) == extra_key_bytes(("tenantA",)) == b"\x91\xa7tenantA"
    assert extra_key_bytes(["a", "b"]) != extra_key_bytes(["ab"])


@pytest.mark.parametrize("length", [3, 4, 5, 6, 8, 10, 11])
def test_arrays_mean_what_maps_mean(length: int) -> None:
    fields = stored(parent_block_hash=9)
    keys = [key for key in fields if key != "type"][:length]
    if length < 4:
        assert decode(["BlockStored", *(fields[key] for key in keys)]).ignored == {Ignored.MALFORMED_EVENT: 1}
        return
    by_map = decode({key: fields[key] for key in ["type", *keys]})
    by_array = decode(["BlockStored", *(fields[key] for key in keys)])
    assert by_array == by_map
    assert len(by_map.events) == 1


def test_removals_and_clears_as_arrays() -> None:
    batch = decode(["BlockRemoved", [1, -2, b"\x01\x02"]], ["BlockRemoved", [3], "GPU", 0], ["AllBlocksCleared"])
    assert batch.events == (
        BlocksRemoved(ENGINE, 7, 3, (1, -2, b"\x01\x02")),
        BlocksRemoved(ENGINE, 7, 3, (3,)),
        BlocksCleared(ENGINE, 7, 3, "reset"),
    )


def test_hashes_may_be_unsigned_signed_or_bytes() -> None:
    hashes = [2**64 - 1, -(2**63), b"\xff" * 32]
    batch = decode(stored(block_hashes=hashes, token_ids=[0] * 6, extra_keys=[None] * 3, parent_block_hash=b"p"))
    assert batch.events[0].hashes == tuple(hashes)
    assert batch.events[0].parent == b"p"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "BlockMigrated", "block_hashes": [1]}, Ignored.UNKNOWN_KIND),
        (["BlockMigrated", [1]], Ignored.UNKNOWN_KIND),
        (stored(kv_cache_spec_kind="mamba"), Ignored.OTHER_CACHE_KIND),
        (stored(medium="MARS"), Ignored.UNKNOWN_MEDIUM),
        ({"type": "BlockRemoved", "block_hashes": [1], "medium": "MARS"}, Ignored.UNKNOWN_MEDIUM),
        (stored(token_ids=[], block_size=0), Ignored.MALFORMED_EVENT),
        (stored(locality="REMOTE"), Ignored.OTHER_PUBLISHER),
        (stored(token_ids=[1, 2, 3]), Ignored.MALFORMED_EVENT),
        (stored(token_ids=[1, 2, 3, 2**32]), Ignored.MALFORMED_EVENT),
        (stored(token_ids=[1, 2, 3, -1]), Ignored.MALFORMED_EVENT),
        (stored(token_ids="abcd"), Ignored.MALFORMED_EVENT),
        (stored(block_size=0), Ignored.MALFORMED_EVENT),
        (stored(block_hashes=[1.5, 2]), Ignored.MALFORMED_EVENT),
        (stored(extra_keys=[None]), Ignored.MALFORMED_EVENT),
        ({"block_hashes": [1]}, Ignored.MALFORMED_EVENT),
        ([], Ignored.MALFORMED_EVENT),
        (7, Ignored.MALFORMED_EVENT),
    ],
)
def test_a_strange_event_is_counted_and_costs_only_itself(event: Any, reason: Ignored) -> None:
    batch = decode(stored(), event, {"type": "AllBlocksCleared"})
    assert [type(e) for e in batch.events] == [BlocksStored, BlocksCleared]
    assert batch.ignored == {reason: 1}


@pytest.mark.parametrize("kind", ["full_attention", "mla_attention", "sink_full_attention", None])
def test_groups_that_keep_whole_prefixes_count(kind: str | None) -> None:
    assert len(decode(stored(kv_cache_spec_kind=kind)).events) == 1


def test_removals_in_a_window_group_do_not_remove_the_full_groups_blocks() -> None:
    groups: set[int] = set()
    decode(stored(kv_cache_spec_kind="sliding_window", group_idx=1), groups=groups)
    assert groups == {1}
    removed = decode(
        {"type": "BlockRemoved", "block_hashes": [11], "medium": "GPU", "group_idx": 1},
        {"type": "BlockRemoved", "block_hashes": [12], "medium": "GPU", "group_idx": 0},
        groups=groups,
    )
    assert [e.hashes for e in removed.events] == [(12,)]
    assert removed.ignored == {Ignored.OTHER_CACHE_KIND: 1}


def test_lora_blocks_of_builds_without_extra_keys_are_not_the_base_models() -> None:
    named = decode(["BlockStored", [1, 2], None, [1, 2, 3, 4], 2, 5, "GPU", "poet"]).events[0]
    numbered = decode(["BlockStored", [1, 2], None, [1, 2, 3, 4], 2, 5]).events[0]
    base = decode(["BlockStored", [1, 2], None, [1, 2, 3, 4], 2, None]).events[0]
    assert named.extra_keys == (extra_key_bytes(["poet"]),) * 2
    assert numbered.extra_keys == (extra_key_bytes([5]),) * 2
    assert base.extra_keys == ()


@pytest.mark.parametrize(
    ("sequence", "payload", "kind"),
    [
        (b"", packed(), "sequence"),
        (b"\0" * 9, packed(), "sequence"),
        (seq(0), b"", "msgpack"),
        (seq(0), packed(stored())[:-4], "msgpack"),
        (seq(0), b"\x91" * 5000, "msgpack"),
        (seq(0), msgspec.msgpack.encode({"a": 1}), "shape"),
        (seq(0), msgspec.msgpack.encode([1.0]), "shape"),
        (seq(0), msgspec.msgpack.encode([1.0, 3]), "shape"),
    ],
)
def test_what_is_no_batch_says_so(sequence: bytes, payload: bytes, kind: str) -> None:
    with pytest.raises(UndecodableBatch) as caught:
        decode_batch(b"", sequence, payload)
    assert caught.value.kind == kind


def test_minus_one_ends_a_replay() -> None:
    assert decode_sequence(b"\xff" * 8) == -1


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=12,
)
_tags = st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared", "Other", 3])
_events = (
    st.builds(lambda tag, rest: [tag, *rest], _tags, st.lists(_values, max_size=12))
    | st.builds(lambda changes: stored(**changes), st.dictionaries(st.sampled_from(sorted(stored())), _values))
    | _values
)


@pytest.mark.parametrize(
    ("medium", "locality", "tier"),
    [
        (None, None, Tier.HBM),
        ("GPU", "LOCAL", Tier.HBM),
        ("CPU", None, Tier.HOST),
        ("cpu", "LOCAL", Tier.HOST),
        ("STORAGE", None, Tier.SSD),
        ("STORAGE", "REMOTE", Tier.REMOTE),
        ("CPU", "REMOTE", Tier.REMOTE),
        ("OBJ", None, Tier.REMOTE),
    ],
)
def test_a_medium_is_a_tier(medium: str | None, locality: str | None, tier: Tier) -> None:
    removed = {"type": "BlockRemoved", "block_hashes": [1], "medium": medium, "locality": locality}
    batch = decode(stored(medium=medium, locality=locality), removed)
    assert [event.tier for event in batch.events if not isinstance(event, BlocksCleared)] == [tier, tier]


def test_a_lower_tier_may_name_blocks_by_hash_alone() -> None:
    event = decode(stored(medium="CPU", token_ids=[], block_size=0, extra_keys=None)).events[0]
    assert isinstance(event, BlocksStored)
    assert (event.hashes, event.token_ids, event.block_tokens, event.tier) == ((11, 12), b"", 0, Tier.HOST)


@pytest.mark.parametrize("rank_key", ["data_parallel_rank", "attn_dp_rank"])
def test_a_batch_may_be_a_map(rank_key: str) -> None:
    payload = msgspec.msgpack.encode({"ts": 1.5, "events": [stored()], rank_key: 2})
    batch = vllm_events.decode(b"t", seq(3), payload, source())
    assert batch.events == decode(stored()).events
    assert batch.rank == 2


def test_batches_of_another_rank_are_left_out() -> None:
    """Each data-parallel rank publishes at a port of its own: this feed listens at the wrong one."""
    payload = packed(stored(), {"type": "AllBlocksCleared"}, rank=1)
    assert len(vllm_events.decode(b"", seq(0), payload, source(rank=1)).events) == 2
    other = vllm_events.decode(b"", seq(0), payload, source(rank=0))
    assert (other.events, other.ignored) == ((), {Ignored.OTHER_RANK: 2})
    assert len(vllm_events.decode(b"", seq(0), packed(stored(), rank=None), source(rank=0)).events) == 1


def test_sglangs_arrays_are_read_up_to_the_medium() -> None:
    """Behind it stands something else than in vLLM's: a session, say, where vLLM has extra keys."""
    array = ["BlockStored", [1, 2], None, [1, 2, 3, 4], 2, None, "CPU_PINNED", None, "session-1"]
    batch = sglang_events.decode(b"", seq(3), packed(array, ["BlockRemoved", [1], "DISK", "x"]), source())
    assert [type(event) for event in batch.events] == [BlocksStored, BlocksRemoved]
    assert [event.tier for event in batch.events if not isinstance(event, BlocksCleared)] == [Tier.HOST, Tier.SSD]
    assert decode(array[:7]).ignored == {Ignored.UNKNOWN_MEDIUM: 1}, "vLLM has no such medium"


def test_sglangs_salt_stands_in_the_first_block_of_a_prompt() -> None:
    root = stored(cache_salt="tenantA", extra_keys=None)
    inner = stored(cache_salt="tenantA", extra_keys=None, parent_block_hash=9)
    first, later = sglang_events.decode(b"", seq(3), packed(root, inner), source()).events
    assert isinstance(first, BlocksStored)
    assert isinstance(later, BlocksStored)
    assert first.extra_keys == (extra_key_bytes(["tenantA"]), b"")
    assert later.extra_keys == ()


DECODERS = [vllm_events.decode, sglang_events.decode]


@pytest.mark.parametrize("read", DECODERS)
@UNHURRIED
@given(payload=st.binary(max_size=200))
def test_random_bytes_raise_one_error_or_nothing(read: Any, payload: bytes) -> None:
    with contextlib.suppress(UndecodableBatch):
        assert read(b"", seq(0), payload, source()).sequence == 0


@pytest.mark.parametrize("read", DECODERS)
@UNHURRIED
@given(events=st.lists(_events, max_size=4), data=st.data())
def test_every_event_is_taken_or_counted_and_truncation_is_one_error(read: Any, events: list[Any], data: Any) -> None:
    payload = packed(*events)
    batch = read(b"", seq(0), payload, source())
    assert len(batch.events) + batch.ignored.total() == len(events)
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(UndecodableBatch):
        read(b"", seq(0), payload[:cut], source())


@pytest.mark.parametrize("name", ["kv_events_prefill", "kv_events_decode", "kv_events_evict_salt_reset"])
@UNHURRIED
@given(data=st.data())
def test_a_recorded_batch_with_wrong_bytes_raises_one_error_or_nothing(name: str, data: Any) -> None:
    row = data.draw(st.sampled_from(recorded(f"{name}.jsonl")))
    payload = bytearray.fromhex(row["frames_hex"][2])
    for at in data.draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=8)):
        payload[at] = data.draw(st.integers(0, 255))
    for read in DECODERS:
        with contextlib.suppress(UndecodableBatch):
            read(b"", seq(0), bytes(payload), source())
