"""Traces in Mooncake's format: JSON lines of {timestamp, input_length, output_length, hash_ids}.

Source: Mooncake (Qin et al., FAST'25), github.com/kvcache-ai/Mooncake; other projects publish traces in the same form.
`timestamp` is in milliseconds; a hash id stands for 512 tokens; the last block has what remains of `input_length`. So
prompts that share leading hash ids share leading tokens. Answers have no ids: a later prompt that repeats one shares
its blocks only with other prompts. `session_id` and `tenant` are taken over when they are there.

The public traces are stamped in steps of about 3 s, all requests of a step at once. Sent as stamped, they arrive in
bursts that the recorded service hardly saw; `Spread.UNIFORM` spaces the requests of a step evenly over it.
"""

from collections.abc import Iterator

import msgspec

from vicinal.workload.formats.blocks import Blocks
from vicinal.workload.formats.json_lines import json_rows
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out

MS_PER_S = 1e3


class _Line(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]
    session_id: str | None = None
    tenant: str | None = None


def _read(lines: Lines, block_tokens: int) -> Iterator[Row | Skipped]:
    blocks = Blocks("hash_ids", block_tokens)
    for line in json_rows(lines, _Line):
        if line.timestamp < 0:
            raise BadRow(f"timestamp {line.timestamp:g} is before the start")
        yield left_out("input_length", line.input_length, "output_length", line.output_length) or Row(
            line.timestamp / MS_PER_S,
            blocks.last_partial(line.hash_ids, line.input_length),
            line.output_length,
            line.session_id,
            line.tenant,
        )


MOONCAKE = Format(
    "mooncake", Kind.JSON_LINES, ("timestamp", "input_length", "output_length", "hash_ids"), _read, block_tokens=512
)
