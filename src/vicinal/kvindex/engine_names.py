"""Engines' names of blocks as unsigned 64-bit numbers, which is what most of them are."""

import struct

from xxhash import xxh3_64_intdigest

from vicinal.domain.ids import EngineHash
from vicinal.kvindex.hashing import pack_hashes

_NUMBER_MAX = 2**64 - 1


def as_numbers(hashes: tuple[EngineHash, ...]) -> tuple[tuple[int, ...], bytes]:
    """Names as numbers, and the same packed. Longer ones, and bytes, become hashes of themselves: that two of an engine
    become the same is as likely as that two prefixes do."""
    try:
        packed = pack_hashes(hashes)  # type: ignore[arg-type]
    except (struct.error, TypeError):
        numbers = tuple([as_number(name) for name in hashes])
        return numbers, pack_hashes(numbers)
    return hashes, packed  # type: ignore[return-value]


def as_number(name: EngineHash) -> int:
    """One name likewise."""
    if isinstance(name, bytes):
        return xxh3_64_intdigest(name)
    if 0 <= name <= _NUMBER_MAX:
        return name
    return name & _NUMBER_MAX if name.bit_length() < 64 else xxh3_64_intdigest(str(name).encode())
