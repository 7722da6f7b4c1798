"""vLLM's KV events: three ZMQ frames become domain events.

A batch is msgpack `[timestamp, [event, ...], data_parallel_rank]`. An event is a map with `type` (vLLM 0.32) or an
array `[tag, field, ...]` in the order of the fields below (older vLLM builds, SGLang); trailing fields may be missing
or unknown. A batch is decoded as a whole or not at all (`UndecodableBatch`), but one strange event inside a sound
batch costs only itself: it is left out and counted under a named reason.

Only what a prefix lookup may rely on becomes an event. KV in groups that forget the start of a sequence (sliding
windows, state-space layers) and KV outside the GPU is counted and left out. A removal does not say what kind of group
it is about, so the caller keeps a set of such group numbers per engine life, which stores fill and removals consult.
"""

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId, EngineHash

KvEvent = BlocksStored | BlocksRemoved | BlocksCleared

SEQUENCE_BYTES = 8
PREFIX_KINDS = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of KV groups that keep a sequence from its first token; `None` (builds that do not say) counts as one."""


class Ignored(StrEnum):
    """Why an event of a sound batch is left out."""

    UNKNOWN_KIND = "unknown_kind"
    OTHER_CACHE_KIND = "other_cache_kind"
    OTHER_MEDIUM = "other_medium"
    OTHER_PUBLISHER = "other_publisher"
    MALFORMED_EVENT = "malformed_event"


class UndecodableBatch(ValueError):  # noqa: N818 (what it is, not that it is an error, is the news)
    """The frames are not a batch of KV events. `kind` is "sequence", "msgpack" or "shape"; the text says more."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """The events of one batch in their order; all carry its sequence. `rank` is the data-parallel rank, if told."""

    topic: bytes
    sequence: int
    rank: int | None
    events: tuple[KvEvent, ...]
    ignored: Counter[Ignored] = field(default_factory=Counter)


class _Stored(msgspec.Struct, gc=False):
    block_hashes: list[int | bytes]
    parent_block_hash: int | bytes | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None


class _Removed(msgspec.Struct, gc=False):
    block_hashes: list[int | bytes]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


_decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def extra_key_bytes(keys: Sequence[object] | None) -> bytes:
    """What one block's hash depends on besides its tokens, as bytes: the msgpack array of `keys`, b"" for none.

    vLLM orders a block's keys as LoRA name, multimodal items, cache salt (the first block's only). So the first block
    of a prompt that is sent with `cache_salt = "tenantA"` carries `extra_key_bytes(["tenantA"])`.
    """
    return _encode(list(keys)) if keys else b""


def decode_sequence(frame: bytes) -> int:
    """The sequence number in its frame: 8 bytes, big endian, signed (-1 ends a replay)."""
    if len(frame) != SEQUENCE_BYTES:
        raise UndecodableBatch("sequence", f"a sequence frame has {SEQUENCE_BYTES} bytes, this one has {len(frame)}")
    return int.from_bytes(frame, "big", signed=True)


def decode_batch(
    topic: bytes,
    sequence: bytes,
    payload: bytes,
    endpoint: EndpointId,
    incarnation: int,
    other_groups: set[int] | None = None,
) -> DecodedBatch:
    """Decode one batch of `endpoint` in its life `incarnation`.

    `other_groups` is the caller's memory of KV groups that no prefix lookup may use, empty at the start of a life; it
    is read and added to. Without it removals in such groups cannot be told from others. Raises `UndecodableBatch`.
    """
    number = decode_sequence(sequence)
    try:
        batch = _decode(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UndecodableBatch("msgpack", f"batch {number} is not msgpack: {error}") from error
    if not isinstance(batch, list) or len(batch) < 2 or not isinstance(batch[1], list):
        raise UndecodableBatch("shape", f"batch {number} is not [timestamp, [event, ...], rank]")
    reader = _Reader(endpoint, incarnation, number, set() if other_groups is None else other_groups)
    for event in batch[1]:
        reader.read(event)
    rank = batch[2] if len(batch) > 2 and isinstance(batch[2], int) else None
    return DecodedBatch(topic, number, rank, tuple(reader.events), reader.ignored)


class _Reader:
    """Turns the events of one batch into the domain's, one after the other."""

    __slots__ = ("_endpoint", "_incarnation", "_other_groups", "_sequence", "events", "ignored")

    def __init__(self, endpoint: EndpointId, incarnation: int, sequence: int, other_groups: set[int]) -> None:
        self._endpoint = endpoint
        self._incarnation = incarnation
        self._sequence = sequence
        self._other_groups = other_groups
        self.events: list[KvEvent] = []
        self.ignored: Counter[Ignored] = Counter()

    def read(self, event: Any) -> None:
        try:
            outcome = self._translate(event)
        except (msgspec.ValidationError, struct.error, RecursionError):
            outcome = Ignored.MALFORMED_EVENT
        if isinstance(outcome, Ignored):
            self.ignored[outcome] += 1
        else:
            self.events.append(outcome)

    def _translate(self, event: Any) -> KvEvent | Ignored:
        tag, fields = _tagged(event)
        if tag == "BlockStored":
            return self._stored(msgspec.convert(_named(fields, _Stored), _Stored))
        if tag == "BlockRemoved":
            return self._removed(msgspec.convert(_named(fields, _Removed), _Removed))
        if tag == "AllBlocksCleared":
            return BlocksCleared(self._endpoint, self._incarnation, self._sequence, "reset")
        return Ignored.UNKNOWN_KIND if isinstance(tag, str) else Ignored.MALFORMED_EVENT

    def _stored(self, wire: _Stored) -> KvEvent | Ignored:
        if wire.kv_cache_spec_kind is not None and wire.kv_cache_spec_kind not in PREFIX_KINDS:
            if wire.group_idx is not None:
                self._other_groups.add(wire.group_idx)
            return Ignored.OTHER_CACHE_KIND
        if (elsewhere := _elsewhere(wire.medium, wire.locality)) is not None:
            return elsewhere
        blocks = len(wire.block_hashes)
        if wire.block_size <= 0 or len(wire.token_ids) != blocks * wire.block_size:
            return Ignored.MALFORMED_EVENT
        if wire.extra_keys is not None and len(wire.extra_keys) != blocks:
            return Ignored.MALFORMED_EVENT
        return BlocksStored(
            endpoint=self._endpoint,
            incarnation=self._incarnation,
            sequence=self._sequence,
            parent=wire.parent_block_hash,
            hashes=tuple(wire.block_hashes),
            token_ids=struct.pack(f"<{len(wire.token_ids)}I", *wire.token_ids),
            block_tokens=wire.block_size,
            extra_keys=_extra_keys(wire, blocks),
        )

    def _removed(self, wire: _Removed) -> KvEvent | Ignored:
        if wire.group_idx in self._other_groups:
            return Ignored.OTHER_CACHE_KIND
        if (elsewhere := _elsewhere(wire.medium, wire.locality)) is not None:
            return elsewhere
        hashes: tuple[EngineHash, ...] = tuple(wire.block_hashes)
        return BlocksRemoved(self._endpoint, self._incarnation, self._sequence, hashes)


def _tagged(event: Any) -> tuple[Any, Any]:
    """The tag of an event in either form, and the rest of it."""
    if isinstance(event, dict):
        return event.get("type"), event
    if isinstance(event, list) and event:
        return event[0], event[1:]
    return None, None


def _named(fields: Any, shape: type[msgspec.Struct]) -> Any:
    return fields if isinstance(fields, dict) else dict(zip(shape.__struct_fields__, fields, strict=False))


def _elsewhere(medium: str | None, locality: str | None) -> Ignored | None:
    """Why these blocks are not in the HBM of the engine that speaks; builds that do not say mean their GPU."""
    if medium is not None and medium.upper() != "GPU":
        return Ignored.OTHER_MEDIUM
    if locality is not None and locality.upper() != "LOCAL":
        return Ignored.OTHER_PUBLISHER
    return None


def _extra_keys(wire: _Stored, blocks: int) -> tuple[bytes, ...]:
    """Per block. Builds without `extra_keys` still say which LoRA a block belongs to: it must not pass for the base."""
    if wire.extra_keys is not None:
        return tuple(extra_key_bytes(keys) for keys in wire.extra_keys)
    lora = wire.lora_id if wire.lora_name is None else wire.lora_name
    return () if lora is None else (extra_key_bytes([lora]),) * blocks
