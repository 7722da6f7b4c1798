"""A witness of an engine's KV events that hears all of them and forgets nothing: what the index must know.

It shares no code with the feeds or the index but the block hash: messages are read with msgpack as they are, and every
block is an entry of a dictionary.
"""

import asyncio
import contextlib
import struct
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from tests.real_engines.engine import BLOCK_TOKENS, RealEngine
from vicinal.engines.kv_fields import extra_key_bytes
from vicinal.kvindex.hashing import ROOT, chain, unpack

Name = bytes | int


@dataclass(slots=True)
class Witness:
    """`blocks` maps the engine's name of a block to our hash of it; `copies` counts how often it was stored."""

    heard: int = -1
    blocks: dict[Name, int] = field(default_factory=dict)
    copies: Counter[Name] = field(default_factory=Counter)

    @property
    def held(self) -> set[int]:
        return {self.blocks[name] for name in self.copies}

    def hear(self, sequence: int, payload: bytes) -> None:
        if sequence <= self.heard:
            return
        assert sequence == self.heard + 1, "the witness hears everything"
        self.heard = sequence
        for event in msgspec.msgpack.decode(payload)[1]:
            self.take(event)

    def take(self, event: dict[str, Any]) -> None:
        if event["type"] == "AllBlocksCleared":
            self.copies.clear()
        elif event["type"] == "BlockRemoved":
            for name in event["block_hashes"]:
                self.copies[name] -= 1
            self.copies += Counter()
        else:
            parent = ROOT if event["parent_block_hash"] is None else self.blocks[event["parent_block_hash"]]
            keys = event["extra_keys"] or [None] * len(event["block_hashes"])
            for number, (name, key) in enumerate(zip(event["block_hashes"], keys, strict=True)):
                tokens = event["token_ids"][number * BLOCK_TOKENS : (number + 1) * BLOCK_TOKENS]
                packed = struct.pack(f"<{BLOCK_TOKENS}I", *tokens)
                (parent,) = unpack(chain(packed, BLOCK_TOKENS, parent, (extra_key_bytes(key),)))
                self.blocks[name] = parent
                self.copies[name] += 1


@contextlib.asynccontextmanager
async def witnessing(engine: RealEngine) -> AsyncIterator[Witness]:
    """Follow one life of an engine: first what it still has, from its first batch on, then what comes."""
    context = zmq.asyncio.Context()
    witness = Witness()
    live = context.socket(zmq.SUB)
    live.setsockopt(zmq.SUBSCRIBE, b"")
    live.connect(engine.events_url)
    await asyncio.sleep(0.5)  # a subscription takes effect some time after it was asked for
    past = context.socket(zmq.DEALER)
    past.connect(engine.replay_url)
    await past.send_multipart([b"", (0).to_bytes(8, "big")])
    while True:
        *_, number, payload = await past.recv_multipart()
        sequence = int.from_bytes(number, "big", signed=True)
        if sequence < 0:
            break
        witness.hear(sequence, payload)

    async def follow() -> None:
        while True:
            _, number, payload = await live.recv_multipart()
            witness.hear(int.from_bytes(number, "big"), payload)

    following = asyncio.create_task(follow())
    try:
        yield witness
        if following.done():
            following.result()
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        context.destroy(linger=0)
