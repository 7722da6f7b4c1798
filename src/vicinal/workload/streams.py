"""Numbers for streams of tokens: what is shared and what is one session's own never meet, nor do two seeds.

A seed has 2^48 streams: the first 2^16 are texts that many sessions share (system prompts), then come 2^16 for each
session. Names of blocks take streams modulo 2^64 (content.py), so seeds that differ by 65,536 have equal texts.
"""

from collections.abc import Iterator

from vicinal.workload.bounds import ParameterError

_PER_SEED = 1 << 48
_PER_SESSION = 1 << 16


def shared_stream(seed: int, text: int) -> int:
    """The stream of a text that many sessions may have. Raises ParameterError from the 65,536th on."""
    if not 0 <= text < _PER_SESSION:
        raise ParameterError(f"a made workload has at most {_PER_SESSION} shared texts")
    return seed * _PER_SEED + text


def own_streams(seed: int, session: int) -> Iterator[int]:
    """Streams of this session's texts: no other session of this seed or another has them, nor a shared text."""
    first = seed * _PER_SEED + (session + 1) * _PER_SESSION
    yield from range(first, first + _PER_SESSION)


def own_stream(seed: int, session: int) -> int:
    """The first of a session's own streams, for one that has a single text."""
    return next(own_streams(seed, session))
