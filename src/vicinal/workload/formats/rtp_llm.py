"""The RTP-LLM log, of a cluster with separate prefill and decode: JSON lines of {ts, il, ol, bh, priority, …}.

Source: github.com/alibaba/rtp-llm (FlexLB). `ts` is in milliseconds; `bh` are the chained hashes of the *full* blocks
of 1,024 prompt tokens, as decimal strings; what remains is text of this request alone. `priority` is taken over as it
is.

In the published log 27 % of the rows have `ol` 0. They were placed on a prefill and a decode engine, have prompts like
the others, waited as long for the first byte (9.3 against 9.6 s), and nothing came after it. So they cost a prefill:
each is kept as a request for one token, and counted. The measured times (the cluster was saturated) are not used.
"""

from collections.abc import Iterator

import msgspec

from vicinal.workload.formats.blocks import Blocks
from vicinal.workload.formats.json_lines import json_rows
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.mooncake import MS_PER_S
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out

_ONE_TOKEN = "one output token taken where the log has none"
_HASHES = 1 << 64


class _Line(msgspec.Struct):
    ts: float
    il: int
    ol: int
    bh: list[str]
    priority: int = 0


def _read(lines: Lines, block_tokens: int) -> Iterator[Row | Skipped]:
    blocks = Blocks("bh", block_tokens)
    for line in json_rows(lines, _Line):
        if line.ts < 0:
            raise BadRow(f"ts {line.ts:g} is before the start")
        yield left_out("il", line.il, "ol", line.ol or 1) or Row(
            line.ts / MS_PER_S,
            blocks.full_only([_hash(text) for text in line.bh], line.il, lines),
            line.ol or 1,
            priority=line.priority,
            assumed=None if line.ol else _ONE_TOKEN,
        )


def _hash(text: str) -> int:
    """A hash as an unsigned number: a log of signed ones is read too."""
    try:
        value = int(text)
    except ValueError:
        value = _HASHES
    if not -_HASHES // 2 <= value < _HASHES:
        raise BadRow(f"bh has {text[:30]!r}, expected a 64-bit number as a string")
    return value % _HASHES


RTP_LLM = Format("rtp-llm", Kind.JSON_LINES, ("ts", "il", "ol", "bh"), _read, block_tokens=1024)
