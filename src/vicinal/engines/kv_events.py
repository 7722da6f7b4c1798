"""KV events of engines: three ZMQ frames become domain events.

A batch is msgpack `[timestamp, [event, ...], rank]`, or a map with the same parts. An event is a map with `type` (vLLM
0.32) or an array `[tag, field, ...]` in an order of fields that the dialect knows (`EventForm`); trailing fields may be
missing or unknown. A batch is decoded as a whole or not at all (`UndecodableBatch`), but one strange event inside a
sound batch costs only itself: it is left out and counted under a named reason.

Only what a prefix lookup may rely on becomes an event. KV in groups that forget the start of a sequence (sliding
windows, state-space layers) and KV on media that no dialect knows is counted and left out. A removal does not say what
kind of group it is about, so the caller keeps a set of such group numbers per engine life, which stores fill and
removals consult.
"""

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId, EngineHash
from vicinal.domain.tier import Tier
from vicinal.engines.kv_fields import Removed, Stored, extra_keys_of, named

KvEvent = BlocksStored | BlocksRemoved | BlocksCleared

SEQUENCE_BYTES = 8
PREFIX_KINDS = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of KV groups that keep a sequence from its first token; `None` (builds that do not say) counts as one."""


class Ignored(StrEnum):
    """Why an event of a sound batch is left out."""

    UNKNOWN_KIND = "unknown_kind"
    OTHER_CACHE_KIND = "other_cache_kind"
    UNKNOWN_MEDIUM = "unknown_medium"
    OTHER_PUBLISHER = "other_publisher"
    OTHER_RANK = "other_rank"
    MALFORMED_EVENT = "malformed_event"
    MALFORMED_REMOVAL = "malformed_removal"  # what it named may still be believed to be there


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


@dataclass(frozen=True, slots=True)
class EventForm:
    """What differs between dialects: how many fields of an array mean what they mean in vLLM, and what the names of
    media stand for."""

    stored_fields: int
    removed_fields: int
    tiers: Mapping[str, Tier]


_decode = msgspec.msgpack.Decoder().decode
_NOT_MSGPACK = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""Besides the library's own: bytes that are no text, maps as keys of maps, times that no calendar has."""


def decode_sequence(frame: bytes) -> int:
    """The sequence number in its frame: 8 bytes, big endian, signed (-1 ends a replay)."""
    if len(frame) != SEQUENCE_BYTES:
        raise UndecodableBatch("sequence", f"a sequence frame has {SEQUENCE_BYTES} bytes, this one has {len(frame)}")
    return int.from_bytes(frame, "big", signed=True)


@dataclass(frozen=True, slots=True)
class Source:
    """Whose batches they are: an endpoint in one of its lives. `rank` is what it is meant to be, None for any.

    `other_groups` is the reader's memory of KV groups that no prefix lookup may use, empty at the start of a life; it
    is read and added to.
    """

    endpoint: EndpointId
    incarnation: int
    rank: int | None = None
    other_groups: set[int] = field(default_factory=set)


DecodeBatch = Callable[[bytes, bytes, bytes, Source], DecodedBatch]
"""(topic, sequence, payload, source) -> batch. Raises `UndecodableBatch` and nothing else."""


def decode_batch(form: EventForm, topic: bytes, sequence: bytes, payload: bytes, source: Source) -> DecodedBatch:
    """Decode one batch. Raises `UndecodableBatch` and nothing else, whatever the bytes.

    A batch of another rank than the source's was meant for another endpoint (each rank publishes at a port of its
    own): it is sound, and all its events are left out.
    """
    number = decode_sequence(sequence)
    try:
        batch = _decode(payload)
    except _NOT_MSGPACK as error:
        raise UndecodableBatch("msgpack", f"batch {number} is not msgpack: {error}") from error
    events, rank = _parts(batch)
    if not isinstance(events, list):
        raise UndecodableBatch("shape", f"batch {number} is not [timestamp, [event, ...], rank]")
    if source.rank is not None and rank is not None and rank != source.rank:
        return DecodedBatch(topic, number, rank, (), Counter({Ignored.OTHER_RANK: len(events)}))
    reader = _Reader(form, source, number)
    for event in events:
        reader.read(event)
    return DecodedBatch(topic, number, rank, tuple(reader.events), reader.ignored)


def _parts(batch: Any) -> tuple[Any, int | None]:
    """The events and the rank of a batch in either form."""
    if isinstance(batch, dict):
        events, rank = batch.get("events"), batch.get("data_parallel_rank", batch.get("attn_dp_rank"))
    elif isinstance(batch, list) and len(batch) > 1:
        events, rank = batch[1], batch[2] if len(batch) > 2 else None
    else:
        return None, None
    return events, rank if isinstance(rank, int) and not isinstance(rank, bool) else None


class _Reader:
    """Turns the events of one batch into the domain's, one after the other."""

    __slots__ = ("_form", "_sequence", "_source", "events", "ignored")

    def __init__(self, form: EventForm, source: Source, sequence: int) -> None:
        self._form = form
        self._source = source
        self._sequence = sequence
        self.events: list[KvEvent] = []
        self.ignored: Counter[Ignored] = Counter()

    def read(self, event: Any) -> None:
        try:
            outcome = self._translate(event)
        except (*_NOT_MSGPACK, struct.error):
            removal = _tagged(event)[0] == "BlockRemoved"
            outcome = Ignored.MALFORMED_REMOVAL if removal else Ignored.MALFORMED_EVENT
        if isinstance(outcome, Ignored):
            self.ignored[outcome] += 1
        else:
            self.events.append(outcome)

    def _translate(self, event: Any) -> KvEvent | Ignored:
        tag, fields = _tagged(event)
        form, source = self._form, self._source
        if tag == "BlockStored":
            return self._stored(msgspec.convert(named(fields, Stored, form.stored_fields), Stored))
        if tag == "BlockRemoved":
            return self._removed(msgspec.convert(named(fields, Removed, form.removed_fields), Removed))
        if tag == "AllBlocksCleared":
            return BlocksCleared(source.endpoint, source.incarnation, self._sequence, "reset")
        return Ignored.UNKNOWN_KIND if isinstance(tag, str) else Ignored.MALFORMED_EVENT

    def _stored(self, wire: Stored) -> KvEvent | Ignored:
        source = self._source
        if wire.kv_cache_spec_kind is not None and wire.kv_cache_spec_kind not in PREFIX_KINDS:
            if wire.group_idx is not None:
                source.other_groups.add(wire.group_idx)
            return Ignored.OTHER_CACHE_KIND
        tier = self._tier(wire.medium, wire.locality)
        if isinstance(tier, Ignored):
            return tier
        blocks = len(wire.block_hashes)
        by_name = tier is not Tier.HBM and not wire.token_ids
        if not by_name and (wire.block_size <= 0 or len(wire.token_ids) != blocks * wire.block_size):
            return Ignored.MALFORMED_EVENT
        if wire.extra_keys is not None and len(wire.extra_keys) != blocks:
            return Ignored.MALFORMED_EVENT
        return BlocksStored(
            endpoint=source.endpoint,
            incarnation=source.incarnation,
            sequence=self._sequence,
            parent=wire.parent_block_hash,
            hashes=tuple(wire.block_hashes),
            token_ids=struct.pack(f"<{len(wire.token_ids)}I", *wire.token_ids),
            block_tokens=max(0, wire.block_size),
            extra_keys=() if by_name else extra_keys_of(wire),
            tier=tier,
        )

    def _removed(self, wire: Removed) -> KvEvent | Ignored:
        source = self._source
        if wire.group_idx in source.other_groups:
            return Ignored.OTHER_CACHE_KIND
        tier = self._tier(wire.medium, wire.locality)
        if isinstance(tier, Ignored):
            return tier
        hashes: tuple[EngineHash, ...] = tuple(wire.block_hashes)
        return BlocksRemoved(source.endpoint, source.incarnation, self._sequence, hashes, tier)

    def _tier(self, medium: str | None, locality: str | None) -> Tier | Ignored:
        """Where these blocks are; builds that do not say mean their own GPU. What is stored away from the engine is in
        a store that others read too; a GPU away from the engine is another engine's."""
        tier = Tier.HBM if medium is None else self._form.tiers.get(medium.upper())
        if tier is None:
            return Ignored.UNKNOWN_MEDIUM
        if locality is None or locality.upper() == "LOCAL":
            return tier
        return Ignored.OTHER_PUBLISHER if tier is Tier.HBM else Tier.REMOTE


def _tagged(event: Any) -> tuple[Any, Any]:
    """The tag of an event in either form, and the rest of it."""
    if isinstance(event, dict):
        return event.get("type"), event
    if isinstance(event, list) and event:
        return event[0], event[1:]
    return None, None
