"""Traces in Mooncake's format: JSON lines of {timestamp, input_length, output_length, hash_ids}.

Source: Mooncake (Qin et al., FAST'25), github.com/kvcache-ai/Mooncake. `timestamp` is in milliseconds; hash id h stands
for 512 tokens, here the first 512 ids of the stream h; the last block has what remains of `input_length`, which is a
prefix of its stream. So prompts that share leading hash ids share leading tokens.

The public traces are stamped in steps of about 3 s, all requests of a step at once. Sent as stamped, they arrive in
bursts that the recorded service hardly saw; `Spread.UNIFORM` spaces the requests of a step evenly over it.
"""

import itertools
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from statistics import median

import msgspec

from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Piece, Prompt, Vocabulary

BLOCK_TOKENS = 512


class Spread(StrEnum):
    """How requests with one stamp are spaced."""

    AS_STAMPED = "as_stamped"
    UNIFORM = "uniform"


class TraceError(ValueError):
    """A trace that cannot be used. Its text has file, line and reason."""


class _Row(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]
    session_id: str | None = None
    tenant: str | None = None


def load_mooncake(
    path: str | Path,
    vocabulary: Vocabulary,
    *,
    limit: int | None = None,
    spread: Spread = Spread.AS_STAMPED,
    rate: float = 1.0,
    block_tokens: int = BLOCK_TOKENS,
) -> list[Arrival]:
    """The first `limit` requests of the trace at `path` (all without a limit), by time of arrival.

    `rate` divides the stamps: 2 sends twice as many requests per second. The first stamp stays where it is. Optional
    fields `session_id` and `tenant` are taken over, others ignored. Raises TraceError naming file, line and reason,
    and ValueError for a rate that is not positive.
    """
    if not 0 < rate < float("inf"):
        raise ValueError(f"rate must be positive and finite, not {rate}")
    rows = sorted(_rows(Path(path), limit, block_tokens), key=lambda row: row.timestamp)
    stamps_s = [row.timestamp / 1e3 for row in rows]
    if spread is Spread.UNIFORM:
        stamps_s = spread_uniformly(stamps_s)
    return [
        Arrival(at_s / rate, _prompt(row, vocabulary, block_tokens), row.output_length, row.session_id, row.tenant)
        for at_s, row in zip(stamps_s, rows, strict=True)
    ]


def spread_uniformly(stamps_s: list[float]) -> list[float]:
    """Ascending stamps with the k-th of n equal ones moved by k/n of a step.

    A step lasts until the next stamp, but no longer than the usual (median) one, so that a pause stays a pause.
    """
    distinct = sorted(set(stamps_s))
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(distinct)]
    usual_s = median(gaps_s) if gaps_s else 0.0
    width_s = dict(zip(distinct, [*(min(gap, usual_s) for gap in gaps_s), usual_s], strict=True)) if distinct else {}
    count = dict.fromkeys(distinct, 0)
    for stamp in stamps_s:
        count[stamp] += 1
    seen = dict.fromkeys(distinct, 0)
    spread_s = []
    for stamp in stamps_s:
        spread_s.append(stamp + width_s[stamp] * seen[stamp] / count[stamp])
        seen[stamp] += 1
    return spread_s


def _rows(path: Path, limit: int | None, block_tokens: int) -> Iterator[_Row]:
    taken = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if limit is not None and taken >= limit:
                    return
                if not line.strip():
                    continue
                try:
                    row = msgspec.json.decode(line, type=_Row)
                except msgspec.DecodeError as error:
                    raise TraceError(f"{path}:{number}: {_reason(error)}") from None
                if reason := _wrong(row, block_tokens):
                    raise TraceError(f"{path}:{number}: {reason}")
                taken += 1
                yield row
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None


def _reason(error: msgspec.DecodeError) -> str:
    kind = "not a request" if isinstance(error, msgspec.ValidationError) else "not valid JSON"
    return f"{kind}: {error}"


def _wrong(row: _Row, block_tokens: int) -> str | None:
    """Why a row of the right types is no request; None when it is one."""
    if row.timestamp < 0:
        return f"timestamp {row.timestamp:g} is before the start"
    if row.input_length < 1:
        return f"input_length {row.input_length} is less than 1"
    if row.output_length < 1:
        return f"output_length {row.output_length} is less than 1"
    blocks = -(-row.input_length // block_tokens)
    if len(row.hash_ids) != blocks:
        return (
            f"{len(row.hash_ids)} hash_ids for input_length {row.input_length}; "
            f"with {block_tokens} tokens each it takes {blocks}"
        )
    if min(row.hash_ids) < 0:
        return f"hash id {min(row.hash_ids)} is negative"
    return None


def _prompt(row: _Row, vocabulary: Vocabulary, block_tokens: int) -> Prompt:
    last_tokens = row.input_length - block_tokens * (len(row.hash_ids) - 1)
    pieces = [Piece(stream, block_tokens) for stream in row.hash_ids[:-1]]
    return Prompt((*pieces, Piece(row.hash_ids[-1], last_tokens)), vocabulary)
