"""Keys of KV blocks: each names a block's tokens together with everything before it.

key[i] = xxh3_64(tokens of block i, seed = key[i - 1]); the root's seed is a hash of the salt, so prompts of different
salts share nothing. These are the engine's own keys. Like a real engine's they mean nothing outside it, and they differ
on purpose from vicinal's hashes, so that nothing comes to rely on the two being equal.
"""

from xxhash import xxh3_64_intdigest

TOKEN_BYTES = 4
"""Tokens are packed as little-endian uint32."""

_ROOT_SEED = 0x656E67696E65


def extend_chain(keys: list[int], tokens: bytes, blocks: int, block_tokens: int, salt: bytes) -> None:
    """Append the keys of `tokens`' full blocks until there are `blocks` of them. `keys` may hold some already."""
    width = block_tokens * TOKEN_BYTES
    view = memoryview(tokens)
    parent = keys[-1] if keys else xxh3_64_intdigest(salt, _ROOT_SEED)
    for start in range(len(keys) * width, blocks * width, width):
        parent = xxh3_64_intdigest(view[start : start + width], parent)
        keys.append(parent)
