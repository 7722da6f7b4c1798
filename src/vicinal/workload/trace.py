"""A trace file becomes a workload, whatever its format: docs/workloads.md has the table."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vicinal.workload.arrival import Arrival, Turn, requests
from vicinal.workload.formats.lines import Lines, TraceError
from vicinal.workload.formats.registry import TraceFormat, chosen, head_of
from vicinal.workload.formats.row import BadRow, Format, Row, Skipped
from vicinal.workload.prompt import Prompt, Vocabulary
from vicinal.workload.spread import Spread, spread_out

__all__ = ["Spread", "Trace", "TraceError", "TraceFormat", "load_trace"]

_RECORD_FILES = "decisions-*.jsonl"


@dataclass(frozen=True, slots=True)
class Trace:
    """A workload and what was made of its file. `arrivals` ascend in time.

    `skipped` counts rows that are no request, `assumed` requests of which something had to be supposed, by reason.
    """

    arrivals: list[Arrival]
    trace_format: TraceFormat
    skipped: Mapping[str, int]
    assumed: Mapping[str, int]

    @property
    def requests(self) -> int:
        """All of them, with the turns that wait for an answer."""
        return requests(self.arrivals)


def load_trace(
    path: str | Path,
    vocabulary: Vocabulary,
    *,
    trace_format: TraceFormat | None = None,
    limit: int | None = None,
    spread: Spread = Spread.AS_STAMPED,
    seed: int = 0,
    rate: float = 1.0,
    block_tokens: int | None = None,
    start_at_zero: bool = True,
) -> Trace:
    """The first `limit` requests of the file at `path` (all without a limit), by time of arrival.

    The format is known by the first line unless it is given; gzip is read as it is; a directory is a decision record.
    `rate` divides the stamps: 2 sends twice as many requests per second; of closed-loop sessions it divides the starts,
    not the pauses. `seed` is that of a random `spread`. `block_tokens` overrides how many tokens a hash id stands for.
    `start_at_zero` moves the first arrival to 0; otherwise stamps stay on the trace's clock (before the division).

    Raises TraceError for a file that cannot be used, naming file, line, what was expected and what to do, and
    ValueError for a rate or block_tokens that is not positive, a negative limit, or block_tokens for a format without
    hash ids.
    """
    if not 0 < rate < float("inf"):
        raise ValueError(f"rate must be positive and finite, not {rate}")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must not be negative, not {limit}")
    paths = _files(Path(path))
    head = head_of(paths)
    form = chosen(head, trace_format)
    detected = "as asked" if trace_format else "detected"
    lines = Lines(paths)
    rows: list[Row] = []
    skipped: Counter[str] = Counter()
    try:
        for item in form.read(lines, _block_tokens(form, block_tokens)) if limit != 0 else ():
            if isinstance(item, Skipped):
                skipped[item.reason] += 1
                continue
            rows.append(item)
            if len(rows) == limit:
                break
    except BadRow as reason:
        raise TraceError(
            f"{lines.place}: {reason}. Read as {form.name} ({detected}): {form.expected}. Mend or remove the line"
            f"{', or name another format' if trace_format is None else ', or leave the format out'}"
        ) from None
    if not rows and limit != 0:
        left = "; ".join(f"{count} ({reason})" for reason, count in skipped.items())
        raise TraceError(
            f"{path}: no requests, read as {form.name} ({detected}){f': left out were {left}' if left else ''}"
        )
    return Trace(
        _arrivals(rows, vocabulary, spread, seed, rate, start_at_zero),
        TraceFormat(form.name),
        dict(skipped),
        dict(Counter(row.assumed for row in rows if row.assumed)),
    )


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob(_RECORD_FILES), key=lambda file: (len(file.name), file.name))
    if not files:
        raise TraceError(f"{path}: a directory without {_RECORD_FILES}; name a trace file or a decision record")
    return files


def _block_tokens(form: Format, asked: int | None) -> int:
    if asked is None:
        return form.block_tokens or 0
    if form.block_tokens is None:
        raise ValueError(f"block_tokens {asked}: a {form.name} trace has no hash ids")
    if asked < 1:
        raise ValueError(f"block_tokens must be positive, not {asked}")
    return asked


def _arrivals(
    rows: list[Row], vocabulary: Vocabulary, spread: Spread, seed: int, rate: float, start_at_zero: bool
) -> list[Arrival]:
    first = sorted((row for row in rows if row.pause_s is None), key=lambda row: row.stamp_s)
    later = _later(rows, vocabulary)
    stamps_s = spread_out([row.stamp_s for row in first], spread, seed)
    start_s = stamps_s[0] if stamps_s and start_at_zero else 0.0
    stamps_s = [stamp_s - start_s for stamp_s in stamps_s]
    return [
        Arrival(
            stamp_s / rate,
            Prompt(row.pieces, vocabulary),
            row.output_tokens,
            row.session,
            row.tenant,
            row.model,
            row.service,
            row.priority,
            row.answer,
            later.get(row.session, ()),
        )
        for stamp_s, row in zip(stamps_s, first, strict=True)
    ]


def _later(rows: Iterable[Row], vocabulary: Vocabulary) -> dict[str | None, tuple[Turn, ...]]:
    """The turns of closed-loop sessions that wait for an answer."""
    turns: dict[str | None, list[Turn]] = {}
    for row in rows:
        if row.pause_s is not None:
            turn = Turn(row.pause_s, Prompt(row.pieces, vocabulary), row.output_tokens, row.answer)
            turns.setdefault(row.session, []).append(turn)
    return {session: tuple(of_session) for session, of_session in turns.items()}
