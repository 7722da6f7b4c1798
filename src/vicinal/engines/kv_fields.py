"""The fields of KV events on the wire, in vLLM's order, and what makes a block's identity besides its tokens."""

from collections.abc import Sequence
from typing import Any

import msgspec

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Stored(msgspec.Struct, gc=False):
    """The fields of `BlockStored`, in vLLM's order as far as arrays go; SGLang's maps have `cache_salt`."""

    block_hashes: list[int | bytes]
    parent_block_hash: int | bytes | None
    token_ids: list[int]
    block_size: int
    lora_id: int | str | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    cache_salt: str | None = None


class Removed(msgspec.Struct, gc=False):
    """The fields of `BlockRemoved` likewise."""

    block_hashes: list[int | bytes]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


def named(fields: Any, shape: type[msgspec.Struct], known: int) -> Any:
    """An array's fields by name, as far as its dialect's order is known; a map is what it is."""
    return fields if isinstance(fields, dict) else dict(zip(shape.__struct_fields__[:known], fields, strict=False))


def extra_key_bytes(keys: Sequence[object] | None) -> bytes:
    """What one block's hash depends on besides its tokens, as bytes: the msgpack array of `keys`, b"" for none.

    vLLM orders a block's keys as LoRA name, multimodal items, cache salt (the first block's only). So the first block
    of a prompt that is sent with `cache_salt = "tenantA"` carries `extra_key_bytes(["tenantA"])`.
    """
    return _encode(list(keys)) if keys else b""


def extra_keys_of(wire: Stored) -> tuple[bytes, ...]:
    """Per block. Builds without `extra_keys` still say which LoRA a block belongs to: it must not pass for the base.
    A salt stands in the first block of a prompt only; the chain carries it on."""
    if wire.extra_keys is not None:
        return tuple(extra_key_bytes(keys) for keys in wire.extra_keys)
    lora = wire.lora_id if wire.lora_name is None else wire.lora_name
    every = [] if lora is None else [lora]
    first = [*every, wire.cache_salt] if wire.cache_salt and wire.parent_block_hash is None else every
    if not first or not wire.block_hashes:
        return ()
    return (extra_key_bytes(first), *[extra_key_bytes(every)] * (len(wire.block_hashes) - 1))
