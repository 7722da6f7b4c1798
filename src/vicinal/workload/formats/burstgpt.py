"""BurstGPT: CSV of Timestamp, Model, Request tokens, Response tokens, …; newer files also have Session ID.

Source: BurstGPT (Wang et al., KDD'25), github.com/HPMLL/BurstGPT. `Timestamp` is in seconds from the midnight before
the first day of the collection, so files start anywhere. A response of 0 tokens is a failed request there; it is left
out and counted. There are no hash ids. Where a file has sessions, a turn's prompt is taken to begin with the prompt and
the answer of the turn before it, when it is long enough to hold both; a shorter one begins anew. Turns arrive as
stamped, whether or not the answer before them is complete.
"""

from collections.abc import Iterator

from vicinal.workload.formats.columns import csv_rows, number, whole_number
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import Format, Kind, Row, Skipped, left_out, private
from vicinal.workload.prompt import Piece

_COLUMNS = ("Timestamp", "Model", "Request tokens", "Response tokens")
_ANSWER_STREAMS = 1 << 61
_HISTORY = "prompt taken to begin with its session's last turn"


def _read(lines: Lines, _: int) -> Iterator[Row | Skipped]:
    told: dict[str, tuple[Piece, ...]] = {}
    for stamp, model, request, response, session in csv_rows(lines, _COLUMNS, ("Session ID",)):
        prompt_tokens, output_tokens = whole_number(_COLUMNS[2], request), whole_number(_COLUMNS[3], response)
        if reason := left_out(_COLUMNS[2], prompt_tokens, _COLUMNS[3], output_tokens):
            yield reason
            continue
        stamp_s = number(_COLUMNS[0], stamp)
        if not session:
            yield Row(stamp_s, (private(lines, prompt_tokens),), output_tokens, model=model or None)
            continue
        history = told.get(session, ())
        new_tokens = prompt_tokens - sum(piece.tokens for piece in history)
        if new_tokens < 0:
            history, new_tokens = (), prompt_tokens
        pieces = (*history, private(lines, new_tokens)) if new_tokens else history
        answer = Piece(_ANSWER_STREAMS + lines.given, output_tokens)
        told[session] = (*pieces, answer)
        yield Row(
            stamp_s,
            pieces,
            output_tokens,
            session,
            model=model or None,
            answer=answer,
            assumed=_HISTORY if history else None,
        )


BURSTGPT = Format("burstgpt", Kind.CSV, _COLUMNS, _read)
