"""Agent sessions, closed loop: JSON lines of a call each, with session, turn and hash ids.

Source: LMCache's agent traces, text dropped, one token taken for 4 characters. A hash id stands for 64 tokens; the last
block has what remains. `timestamp` is in milliseconds from the start of its session, turn 0 at 0. Only the first turn
of a session has a time here; each other turn waits for the answer before it, and then for its pause.

- Pause. A recorded gap runs from request to request, so the recorded model's own time is in it, and the model that the
  workload is sent to brings its own. What is taken off is 6 ms per token of the answer: over all three agents no answer
  of 64 tokens or more came faster than 5.9 ms per token, the 1st percentile is 6.2. So what remains is tools, people,
  the recorded prefill, and what a slower recorded answer took beyond that: an upper bound of the pause. It is never
  below 0.
- Starts. The trace does not say when sessions start; they start one second after another, in the order of the file. A
  rate divides these starts and no pause: an agent does not think faster when there are more of them.
- Answers have no ids of their own, and the partial block that a prompt ends in has another id than the full block that
  a later prompt has there. So what is shared ends at the last full block of the earlier prompt.
"""

from collections.abc import Iterator

import msgspec

from vicinal.workload.formats.blocks import Blocks
from vicinal.workload.formats.json_lines import json_rows
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.mooncake import MS_PER_S
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out

RECORDED_S_PER_TOKEN = 0.006
START_EVERY_S = 1.0


class _Line(msgspec.Struct):
    session_id: str
    turn: int
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


class _Session(msgspec.Struct):
    """Where a session is. `sent_s` and `output_tokens` are of its last turn that is a request; None before there is."""

    start_s: float
    turn: int = -1
    stamp_s: float = 0.0
    sent_s: float | None = None
    output_tokens: int = 0


def _read(lines: Lines, block_tokens: int) -> Iterator[Row | Skipped]:
    blocks = Blocks("hash_ids", block_tokens)
    sessions: dict[str, _Session] = {}
    for line in json_rows(lines, _Line):
        session = sessions.get(line.session_id)
        if session is None:
            session = sessions[line.session_id] = _Session(START_EVERY_S * len(sessions))
        stamp_s = line.timestamp / MS_PER_S
        _follow(session, line, stamp_s)
        if reason := left_out("input_length", line.input_length, "output_length", line.output_length):
            yield reason
            continue
        pause_s = None
        if session.sent_s is not None:
            pause_s = max(0.0, stamp_s - session.sent_s - RECORDED_S_PER_TOKEN * session.output_tokens)
        pieces = blocks.last_partial(line.hash_ids, line.input_length)
        session.sent_s, session.output_tokens = stamp_s, line.output_length
        yield Row(session.start_s, pieces, line.output_length, line.session_id, pause_s=pause_s)


def _follow(session: _Session, line: _Line, stamp_s: float) -> None:
    if line.turn != session.turn + 1:
        raise BadRow(f"turn {line.turn} of session {line.session_id!r} where turn {session.turn + 1} is due")
    if line.turn == 0 and stamp_s != 0:
        raise BadRow(f"turn 0 of session {line.session_id!r} is at {line.timestamp:g} ms; stamps count from it, so 0")
    if stamp_s < session.stamp_s:
        raise BadRow(f"turn {line.turn} of session {line.session_id!r} is stamped before the turn that it follows")
    session.turn, session.stamp_s = line.turn, stamp_s


AGENT = Format(
    "agent",
    Kind.JSON_LINES,
    ("session_id", "agent", "turn", "timestamp", "input_length", "output_length", "hash_ids"),
    _read,
    block_tokens=64,
)
