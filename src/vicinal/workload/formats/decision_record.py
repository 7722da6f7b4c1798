"""vicinal's own decision record as a workload: what was asked of one policy, to be asked of another.

A file of it, or the directory that has them. Of each request the first decision counts; later ones (the decode leg,
another attempt) repeat its prompt and its arrival. Its prompt is known by one chained hash per 512 tokens; what lies
behind the last of them is text of this request alone, so what two prompts share is cut down to a multiple of 512. (A
hash belongs to the block that reaches a multiple of 512, so with blocks that do not divide 512 it stands for a few
more.)

The answer's length is what was observed, when the request was answered to its end; otherwise what was expected at
arrival, and that is counted. A request that was never decided on is not known well enough and is counted as left out. A
scheduler's clock starts at 0 with it: a record of several runs is joined end to end, which is counted too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from vicinal.workload.formats.json_lines import decoded
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out, private
from vicinal.workload.prompt import Piece

COARSE_TOKENS = 512
_DONE = "done"
_EXPECTED = "output length as expected at arrival: no whole answer was observed"
_JOINED = "arrival after a restart: runs joined end to end"
_UNDECIDED = Skipped("observed but never decided on, so its prompt is not known")
_TORN = Skipped("last line of a file cut off by a crash")


class _Decision(msgspec.Struct, tag_field="kind", tag="decision"):
    request_id: str
    model_id: str
    tenant_id: str
    priority: int
    at_s: float
    arrived_s: float
    service: str
    prompt_tokens: int
    expected_output_tokens: int
    block_tokens: int
    coarse_hashes: list[int]


class _Observation(msgspec.Struct, tag_field="kind", tag="observation"):
    request_id: str
    at_s: float
    ending: str
    output_tokens: int | None


@dataclass(slots=True)
class _Asked:
    """A request as far as it is on record."""

    decision: _Decision
    pieces: tuple[Piece, ...]
    stamp_s: float
    restarted: bool
    output_tokens: int | None = None


def _read(lines: Lines, _: int) -> Iterator[Row | Skipped]:
    decoder = msgspec.json.Decoder(_Decision | _Observation)
    requests: dict[tuple[int, str], _Asked] = {}
    run, run_start_s, last_s, path = 0, 0.0, 0.0, lines.path
    for line in lines:
        try:
            entry = decoded(decoder, line)
        except BadRow:
            if line.endswith(b"\n"):
                raise
            yield _TORN
            continue
        if lines.path != path and entry.at_s < last_s:
            run, run_start_s = run + 1, run_start_s + last_s
        path, last_s = lines.path, entry.at_s
        key = (run, entry.request_id)
        if isinstance(entry, _Observation):
            if key not in requests:
                yield _UNDECIDED
            elif entry.ending == _DONE and entry.output_tokens:
                requests[key].output_tokens = entry.output_tokens
        elif key not in requests:
            requests[key] = _Asked(entry, _pieces(entry, lines), run_start_s + entry.arrived_s, run > 0)
            entry.coarse_hashes = []
    for asked in requests.values():
        yield _row(asked)


def _row(asked: _Asked) -> Row | Skipped:
    decision = asked.decision
    output_tokens = asked.output_tokens or decision.expected_output_tokens
    return left_out("prompt_tokens", decision.prompt_tokens, "output_tokens", output_tokens) or Row(
        asked.stamp_s,
        asked.pieces,
        output_tokens,
        tenant=decision.tenant_id,
        model=decision.model_id,
        service=decision.service,
        priority=decision.priority,
        assumed=_EXPECTED if asked.output_tokens is None else _JOINED if asked.restarted else None,
    )


def _pieces(decision: _Decision, lines: Lines) -> tuple[Piece, ...]:
    """One piece per hash, from the end of the one before to the end of its block, and what is left."""
    block_tokens, prompt_tokens = decision.block_tokens, decision.prompt_tokens
    if block_tokens < 1 or prompt_tokens < 0:
        raise BadRow(f"block_tokens {block_tokens}, prompt_tokens {prompt_tokens}: no such prompt")
    full_tokens = prompt_tokens // block_tokens * block_tokens
    stretches = range(COARSE_TOKENS, full_tokens + 1, COARSE_TOKENS)
    ends = list(dict.fromkeys(-(-end // block_tokens) * block_tokens for end in stretches))
    if decision.coarse_hashes and len(decision.coarse_hashes) != len(ends):
        raise BadRow(f"{len(decision.coarse_hashes)} coarse_hashes for {prompt_tokens} tokens; it takes {len(ends)}")
    pieces, start = [], 0
    # Without hashes (nothing may be known of the prompt) all of it is the request's own.
    for name, end in zip(decision.coarse_hashes, ends, strict=False):
        pieces.append(Piece(name, end - start))
        start = end
    if start < prompt_tokens:
        pieces.append(private(lines, prompt_tokens - start))
    return tuple(pieces)


DECISION_RECORD = Format("vicinal", Kind.JSON_LINES, ("kind", "request_id"), _read)
