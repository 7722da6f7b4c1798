"""ShareGPT as token ids: JSON lines of {arrival_time_ns, input_tok_ids, output_tok_ids}.

Source: github.com/casys-kaist/LLMServingSim. Prompts and answers are the ids themselves, so blocks of any size are
shared as they were, and an answer is known. Ids are of the tokenizer that the trace was made with (the file's name has
it). `input_toks` and `output_toks`, where given, must be the numbers of ids.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from vicinal.workload.formats.json_lines import json_rows
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out
from vicinal.workload.prompt import Literal

_NS_PER_S = 1e9
_IDS = 1 << 32


class _Line(msgspec.Struct):
    arrival_time_ns: int
    input_tok_ids: list[int]
    output_tok_ids: list[int]
    input_toks: int | None = None
    output_toks: int | None = None


def _read(lines: Lines, _: int) -> Iterator[Row | Skipped]:
    for line in json_rows(lines, _Line):
        if line.arrival_time_ns < 0:
            raise BadRow(f"arrival_time_ns {line.arrival_time_ns} is before the start")
        prompt = _literal("input_tok_ids", line.input_tok_ids, "input_toks", line.input_toks)
        answer = _literal("output_tok_ids", line.output_tok_ids, "output_toks", line.output_toks)
        yield left_out("input_toks", prompt.tokens, "output_toks", answer.tokens) or Row(
            line.arrival_time_ns / _NS_PER_S, (prompt,), answer.tokens, answer=answer
        )


def _literal(name: str, ids: list[int], count_name: str, count: int | None) -> Literal:
    if count is not None and count != len(ids):
        raise BadRow(f"{name} has {len(ids)} ids, {count_name} is {count}")
    if ids and not 0 <= min(ids) <= max(ids) < _IDS:
        raise BadRow(f"{name} has an id that is negative or has more than 32 bits")
    return Literal(np.array(ids, dtype="<u4").tobytes())


SHAREGPT = Format("sharegpt", Kind.JSON_LINES, ("arrival_time_ns", "input_tok_ids", "output_tok_ids"), _read)
