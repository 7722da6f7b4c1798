"""KV events over real ZMQ sockets: the frames, what they say, and the replay of what was missed."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
import zmq.asyncio

from vicinal.domain.ids import EndpointId

FIXTURES = Path(__file__).parents[1] / "fixtures" / "vllm-0.32-cpu"
PROMPT = list(range(5, 105))


@pytest.fixture
async def context() -> AsyncIterator[zmq.asyncio.Context]:
    made = zmq.asyncio.Context()
    yield made
    made.destroy(linger=0)


async def subscribe(rig: Any, context: zmq.asyncio.Context, name: str) -> Any:
    """A subscriber that is known to be connected: it has seen the events of a first request."""
    socket = context.socket(zmq.SUB)
    socket.connect(rig.endpoints[name].events_url)
    socket.subscribe(b"kv-events")
    number = 0
    while not await socket.poll(20):
        number += 1
        await rig.complete(name, [900, number, *range(50, 80)], 1)
    while await socket.poll(20):
        await socket.recv_multipart()
    return socket


async def receive(socket: Any) -> tuple[int, list[dict[str, Any]]]:
    topic, sequence, payload = await asyncio.wait_for(socket.recv_multipart(), 10)
    assert topic == b"kv-events"
    stamp, events, rank = msgspec.msgpack.decode(payload)
    assert isinstance(stamp, float)
    assert rank == 0
    return int.from_bytes(sequence, "big"), events


async def replay(rig: Any, context: zmq.asyncio.Context, name: str, first: int) -> list[tuple[int, Any]]:
    dealer = context.socket(zmq.DEALER)
    dealer.connect(rig.endpoints[name].replay_url)
    await dealer.send_multipart([b"", first.to_bytes(8, "big")])
    batches: list[tuple[int, Any]] = []
    while True:
        empty, topic, sequence, payload = await asyncio.wait_for(dealer.recv_multipart(), 10)
        assert empty == b""
        if sequence == b"\xff" * 8:
            assert (topic, payload) == (b"", b"")
            dealer.close(linger=0)
            return batches
        assert topic == b"kv-events"
        batches.append((int.from_bytes(sequence, "big"), msgspec.msgpack.decode(payload)))


@pytest.mark.mission("B10")
async def test_stored_blocks_are_told_as_recorded(rig: Any, context: zmq.asyncio.Context) -> None:
    socket = await subscribe(rig, context, "p")
    await rig.complete("p", PROMPT, 1, cache_salt="tenantA")
    before, (stored,) = await receive(socket)
    recorded = json.loads((FIXTURES / "kv_events_prefill.jsonl").read_text().splitlines()[0])["decoded"][1][0]
    assert list(stored) == list(recorded)
    assert stored | {"block_hashes": [], "token_ids": []} == recorded | {
        "block_hashes": [],
        "token_ids": [],
        "parent_block_hash": None,
        "block_size": 16,
        "extra_keys": [["tenantA"], None, None, None, None, None],
    }
    assert stored["token_ids"] == PROMPT[:96]
    assert len(set(stored["block_hashes"])) == 6
    await rig.complete("p", [*PROMPT[:96], *range(300, 340)], 1, cache_salt="tenantA")
    after, (more,) = await receive(socket)
    assert after == before + 1
    assert more["parent_block_hash"] == stored["block_hashes"][-1]
    assert more["token_ids"] == list(range(300, 332))
    assert more["extra_keys"] == [None, None]


async def test_evictions_and_resets_are_told(make_rig: Any, context: zmq.asyncio.Context) -> None:
    rig = await make_rig(kv_blocks=8)
    socket = await subscribe(rig, context, "p")
    assert await rig.post("p", "/reset_prefix_cache", b"") == (200, {"success": True})
    await rig.complete("p", PROMPT, 1)
    _, (cleared, stored) = await receive(socket)
    assert cleared == {"type": "AllBlocksCleared"}
    await rig.complete("p", list(range(500, 564)), 1)
    _, events = await receive(socket)
    removed = [event for event in events if event["type"] == "BlockRemoved"]
    assert [h for event in removed for h in event["block_hashes"]] == stored["block_hashes"][::-1][:2]
    assert removed[0] | {"block_hashes": []} == {
        "type": "BlockRemoved",
        "block_hashes": [],
        "medium": "GPU",
        "group_idx": 0,
    }


async def test_a_gap_can_be_filled_from_the_replay(rig: Any, context: zmq.asyncio.Context) -> None:
    for start in (0, 200, 400):
        await rig.complete("p", list(range(start, start + 40)), 1)
    everything = await replay(rig, context, "p", 0)
    assert [sequence for sequence, _ in everything] == [0, 1, 2]
    assert await replay(rig, context, "p", 2) == everything[2:]
    assert await replay(rig, context, "p", 3) == []


async def test_the_replay_buffer_is_bounded(rig: Any, context: zmq.asyncio.Context) -> None:
    rig.fleet.station(EndpointId("p")).publisher._buffer_batches = 2
    for start in range(0, 500, 100):
        await rig.complete("p", list(range(start, start + 40)), 1)
    assert [sequence for sequence, _ in await replay(rig, context, "p", 0)] == [3, 4]


async def test_a_restarted_engine_is_a_new_one(rig: Any, context: zmq.asyncio.Context) -> None:
    await rig.complete("p", PROMPT, 1)
    before = (await rig.prefill("p", PROMPT))["remote_engine_id"]
    await rig.fleet.kill(EndpointId("p"))
    await rig.fleet.restart(EndpointId("p"))
    params = await rig.prefill("p", PROMPT)
    assert params["remote_engine_id"] != before
    assert params["remote_prefill_cached_tokens"] == 0
    assert [sequence for sequence, _ in await replay(rig, context, "p", 0)] == [0]
