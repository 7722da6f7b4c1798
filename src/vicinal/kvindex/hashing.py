"""Names for blocks: a chained hash of a prompt's full blocks.

A block's KV depends on every token before it, so its name must too: the hash of a block is xxh3_64 over its own bytes,
seeded with the hash of the block before it. Two equal hashes therefore mean two equal *prefixes*, and a chain can be
continued from any block whose hash is known, without its tokens.

    hash(block) = xxh3_64(token ids as little-endian uint32  +  extra keys, seed = hash(parent))       hash(root) = ROOT

Extra keys (LoRA, a trust group's salt, images) go behind the tokens. A block has a fixed number of tokens, so no choice
of keys can imitate other tokens. The hash is fast, not cryptographic: a client can build two prefixes that share a
name, and gains a wrong prediction from it, never another client's KV, because engines compare their own hashes.
"""

from collections.abc import Sequence
from itertools import islice
from struct import iter_unpack, pack, unpack_from

import numpy as np
from xxhash import xxh3_64_intdigest

from vicinal.domain.request import HASH_BYTES

ROOT = 0
"""The parent of every prompt's first block."""

TOKEN_BYTES = 4


def chain(
    token_bytes: bytes | memoryview, block_tokens: int, parent: int = ROOT, extra_keys: Sequence[bytes] = ()
) -> bytes:
    """The hashes of all *full* blocks of `token_bytes`, packed 8 bytes each, little-endian, first block first.

    `token_bytes` is packed little-endian uint32; a partial last block gets no hash. `extra_keys` has one entry per
    block; blocks past its end have none, so a salt is `(salt,)`: what it does to the first block, the chain carries on.
    """
    block_bytes = block_tokens * TOKEN_BYTES
    blocks = len(token_bytes) // block_bytes
    parts = iter_unpack(f"{block_bytes}s", memoryview(token_bytes)[: blocks * block_bytes])
    above = parent
    hashes = [
        above := xxh3_64_intdigest(tokens + key, above)
        for (tokens,), key in zip(islice(parts, min(len(extra_keys), blocks)), extra_keys, strict=False)
    ]
    hashes += [above := xxh3_64_intdigest(tokens, above) for (tokens,) in parts]
    return pack_hashes(hashes)


def pack_hashes(hashes: Sequence[int]) -> bytes:
    """Unsigned 64-bit numbers as packed hashes."""
    return pack(f"<{len(hashes)}Q", *hashes)


def unpack(hashes: bytes) -> tuple[int, ...]:
    """Packed hashes as unsigned 64-bit numbers."""
    return unpack_from(f"<{len(hashes) // HASH_BYTES}Q", hashes)


def coarse(hashes: bytes, block_tokens: int, every_tokens: int = 512) -> tuple[int, ...]:
    """One hash per `every_tokens` tokens: that of the block in which each such stretch of the prompt ends.

    Where blocks do not divide a stretch, the block that reaches its end stands for it; a block longer than a stretch
    appears once.
    """
    every_blocks, rest = divmod(every_tokens, block_tokens)
    if not rest:
        return tuple(np.frombuffer(hashes, dtype="<u8")[every_blocks - 1 :: every_blocks].tolist())
    tokens = len(hashes) // HASH_BYTES * block_tokens
    ends = range(every_tokens, tokens + 1, every_tokens)
    places = dict.fromkeys(-(-end // block_tokens) - 1 for end in ends)
    return tuple(unpack_from("<Q", hashes, place * HASH_BYTES)[0] for place in places)
