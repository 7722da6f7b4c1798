"""Names for blocks of recipes: who needs only to know which prompts share which blocks need not make their tokens.

A block's name is a hash of where its tokens come from (stream, first and last position), chained over the block before
it, so equal recipes have equal names and a shared prefix of tokens is a shared prefix of names. They are not the hashes
of the tokens themselves (kvindex/hashing.py); a run uses the one or the other throughout.
"""

from collections.abc import Iterable
from struct import Struct

from xxhash import xxh3_64_intdigest

from vicinal.workload.prompt import TOKEN_BYTES, Literal, Piece

_SEGMENT = Struct("<Qii")
_SEED = 0x72656369706573
_STREAMS = 1 << 64


def block_names(pieces: Iterable[Piece | Literal], block_tokens: int) -> list[int]:
    """One unsigned 64-bit name per full block of `block_tokens` tokens, root first."""
    names: list[int] = []
    parent = _SEED
    pending, room = b"", block_tokens
    for piece in pieces:
        at, end = 0, piece.tokens
        if end == room == block_tokens and isinstance(piece, Piece):  # what traces are made of
            parent = xxh3_64_intdigest(_SEGMENT.pack(piece.stream % _STREAMS, 0, end), parent)
            names.append(parent)
            continue
        while end - at >= room:
            parent = xxh3_64_intdigest(pending + _content(piece, at, at + room), parent)
            names.append(parent)
            at += room
            pending, room = b"", block_tokens
        if at < end:
            pending += _content(piece, at, end)
            room -= end - at
    return names


def _content(piece: Piece | Literal, start: int, stop: int) -> bytes:
    if isinstance(piece, Literal):
        return piece.packed[start * TOKEN_BYTES : stop * TOKEN_BYTES]
    return _SEGMENT.pack(piece.stream % _STREAMS, start, stop)
