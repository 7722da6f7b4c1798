"""Qwen-Bailian: JSON lines like Mooncake's, with links between the turns of a conversation.

Source: github.com/alibaba-edu/qwen-bailian-usagetraces-anon (Wang et al., "KVCache Cache in the Wild", ATC'25).
`timestamp` is in seconds from the start; a hash id stands for 16 tokens; `parent_chat_id` is the turn before, -1 for
none. A session is named by the turn that it began with; where that is not in the file, by the earliest that is known
of. Turns arrive as stamped. The source says that applications strip some tokens (of reasoning) from a conversation
before they send it again, so an answer is not taken to be in the next prompt: what prompts share is what their ids say.
"""

from collections.abc import Iterator

import msgspec

from vicinal.workload.formats.blocks import Blocks
from vicinal.workload.formats.json_lines import json_rows
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out


class _Line(msgspec.Struct):
    chat_id: int
    parent_chat_id: int
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


def _read(lines: Lines, block_tokens: int) -> Iterator[Row | Skipped]:
    blocks = Blocks("hash_ids", block_tokens)
    first: dict[int, int] = {}
    for line in json_rows(lines, _Line):
        root = line.chat_id if line.parent_chat_id < 0 else first.get(line.parent_chat_id, line.parent_chat_id)
        first[line.chat_id] = root
        if line.timestamp < 0:
            raise BadRow(f"timestamp {line.timestamp:g} is before the start")
        yield left_out("input_length", line.input_length, "output_length", line.output_length) or Row(
            line.timestamp,
            # The description does not say whether a partial last block has an id; either is unmistakable.
            blocks.full_only(line.hash_ids, line.input_length, lines)
            if len(line.hash_ids) == line.input_length // block_tokens
            else blocks.last_partial(line.hash_ids, line.input_length),
            line.output_length,
            str(root),
        )


QWEN_BAILIAN = Format(
    "qwen-bailian",
    Kind.JSON_LINES,
    ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids"),
    _read,
    block_tokens=16,
)
