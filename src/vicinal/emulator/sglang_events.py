"""KV events in SGLang's form: arrays, with a medium as the last field that others may read."""

from array import array
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from vicinal.domain.tier import Tier
from vicinal.enginemodel.work import BlocksEvicted, BlocksSealed, CacheChange

_MEDIA: Mapping[Tier, str] = MappingProxyType(
    {Tier.HBM: "GPU", Tier.HOST: "CPU_PINNED", Tier.SSD: "DISK", Tier.REMOTE: "EXTERNAL"}
)


class BlockStored(msgspec.Struct, array_like=True, tag="BlockStored"):
    block_hashes: tuple[int, ...]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str


class BlockRemoved(msgspec.Struct, array_like=True, tag="BlockRemoved"):
    block_hashes: tuple[int, ...]
    medium: str


class AllBlocksCleared(msgspec.Struct, array_like=True, tag="AllBlocksCleared"):
    pass


def to_event(change: CacheChange, block_tokens: int) -> BlockStored | BlockRemoved | AllBlocksCleared:
    """The event for a change. A salt is not told: SGLang's arrays have no place for it."""
    if isinstance(change, BlocksSealed):
        tokens = array("I")
        tokens.frombytes(change.tokens)
        return BlockStored(change.keys, change.parent, tokens.tolist(), block_tokens, None, _MEDIA[change.tier])
    if isinstance(change, BlocksEvicted):
        return BlockRemoved(change.keys, _MEDIA[change.tier])
    return AllBlocksCleared()
