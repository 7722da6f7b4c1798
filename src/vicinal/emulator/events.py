"""KV events as vLLM and SGLang publish them over ZMQ, with replay (vllm.distributed.kv_events; PROTOCOLS 1).

PUB sends [topic, sequence (8 bytes, big endian, from 0), msgpack [wall time, [events], rank]]. ROUTER answers
["", first sequence wanted] with what its bounded buffer still has, and an empty message numbered -1 at the end.
"""

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from vicinal.domain.tier import Tier
from vicinal.enginemodel.work import BlocksEvicted, BlocksSealed, CacheChange

TOPIC = b"kv-events"
_END = b"\xff" * 8
_PENDING_MAX = 10_000
_MEDIA = {Tier.HBM: "GPU", Tier.HOST: "CPU", Tier.SSD: "STORAGE"}
"""vLLM's words for where a block is (vllm.v1.kv_offload)."""

_RELEASE_MAX_MS = 1000

Socket = zmq.Socket[bytes]


class BlockStored(msgspec.Struct, tag_field="type", tag="BlockStored"):
    block_hashes: tuple[int, ...]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str
    lora_name: str | None
    extra_keys: list[list[str] | None] | None
    group_idx: int
    kv_cache_spec_kind: str


class BlockRemoved(msgspec.Struct, tag_field="type", tag="BlockRemoved"):
    block_hashes: tuple[int, ...]
    medium: str
    group_idx: int


class AllBlocksCleared(msgspec.Struct, tag_field="type", tag="AllBlocksCleared"):
    pass


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


def to_event(change: CacheChange, block_tokens: int) -> KvEvent:
    if isinstance(change, BlocksSealed):
        tokens = array("I")
        tokens.frombytes(change.tokens)
        extra: list[list[str] | None] | None = None
        if change.tier is Tier.HBM:  # what is offloaded is told without them
            extra = [None] * len(change.keys)
            if change.salt and change.parent is None:
                extra[0] = [change.salt.decode()]
        medium = _MEDIA[change.tier]
        return BlockStored(
            change.keys, change.parent, tokens.tolist(), block_tokens, None, medium, None, extra, 0, "full_attention"
        )
    if isinstance(change, BlocksEvicted):
        return BlockRemoved(change.keys, _MEDIA[change.tier], 0)
    return AllBlocksCleared()


class EventPublisher:
    """Publishes one engine's cache changes, each as the event that `to_event` makes of it. The replay buffer is bounded
    in batches and in bytes."""

    def __init__(
        self,
        block_tokens: int,
        buffer_batches: int = 10_000,
        buffer_bytes: int = 16 << 20,
        to_event: Callable[[CacheChange, int], Any] = to_event,
    ) -> None:
        self._block_tokens = block_tokens
        self._to_event = to_event
        self._buffer: deque[tuple[int, bytes]] = deque()
        self._buffer_batches = buffer_batches
        self._buffer_bytes_max = buffer_bytes
        self._buffer_bytes = 0
        self._sequence = 0
        self._encoder = msgspec.msgpack.Encoder()
        self._publishing: Socket | None = None
        self._answering: tuple[Socket, zmq.asyncio.Socket] | None = None
        self._replaying: asyncio.Task[None] | None = None

    def bind(self, context: zmq.Context[Socket], events_url: str, replay_url: str) -> None:
        """Open the sockets whose address is not empty. Raises zmq.ZMQError when one is taken."""
        if events_url:
            self._publishing = _bound(context, zmq.PUB, events_url)
        if replay_url:
            socket = _bound(context, zmq.ROUTER, replay_url)
            view = zmq.asyncio.Socket.from_socket(socket)
            self._answering = (socket, view)
            self._replaying = asyncio.create_task(self._replay(view))

    def publish(self, changes: Sequence[CacheChange]) -> None:
        if self._publishing is None or not changes:
            return
        events = [self._to_event(change, self._block_tokens) for change in changes]
        payload = self._encoder.encode([time.time(), events, 0])
        self._publishing.send_multipart([TOPIC, self._sequence.to_bytes(8, "big"), payload], zmq.NOBLOCK)
        self._buffer.append((self._sequence, payload))
        self._buffer_bytes += len(payload)
        self._sequence += 1
        while len(self._buffer) > self._buffer_batches or self._buffer_bytes > self._buffer_bytes_max:
            self._buffer_bytes -= len(self._buffer.popleft()[1])

    async def close(self) -> None:
        """Close the sockets. Their addresses are free afterwards."""
        if self._replaying is not None:
            self._replaying.cancel()
            await asyncio.wait([self._replaying])
            self._replaying = None
        if self._publishing is not None:
            _release(self._publishing)
            self._publishing.close(linger=0)
            self._publishing = None
        if self._answering is not None:
            socket, view = self._answering
            _release(socket)
            # The view watches the socket's descriptor in the event loop, so it goes first.
            view.close(linger=0)
            socket.close(linger=0)
            self._answering = None

    async def _replay(self, router: zmq.asyncio.Socket) -> None:
        while True:
            frames = await router.recv_multipart()
            if len(frames) != 3 or len(frames[2]) != 8:
                continue
            peer, first = frames[0], int.from_bytes(frames[2], "big")
            for sequence, payload in tuple(self._buffer):
                if sequence >= first:
                    await router.send_multipart([peer, b"", TOPIC, sequence.to_bytes(8, "big"), payload])
            await router.send_multipart([peer, b"", b"", _END, b""])


def _bound(context: zmq.Context[Socket], kind: int, url: str) -> Socket:
    socket = context.socket(kind)
    socket.setsockopt(zmq.SNDHWM, _PENDING_MAX)
    try:
        socket.bind(url)
    except zmq.ZMQError:
        socket.close(linger=0)
        raise
    return socket


def _release(socket: Socket) -> None:
    """Give up a socket's address. ZMQ does it in another thread; its monitor tells when it is done."""
    url = socket.getsockopt(zmq.LAST_ENDPOINT)
    monitor = socket.get_monitor_socket(zmq.EVENT_CLOSED)
    socket.unbind(url.rstrip(b"\0").decode() if isinstance(url, bytes) else str(url))
    monitor.poll(_RELEASE_MAX_MS)
    socket.disable_monitor()
    monitor.close(linger=0)
