"""Reads the decision record back: all of it, one request, the last one, the slowest.

A record can be large, so searches look at the bytes of a line before they decode it: each line begins with its kind and
its request's id. What belongs to one request (its decisions in order, its observation) is a `Case`.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from vicinal.observe.lines import DecisionRecord, Line, ObservationRecord
from vicinal.observe.records import record_files

_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode

_DECISION = b'{"kind":"decision","request_id":'
_OBSERVATION = b'{"kind":"observation","request_id":'


class RecordError(ValueError):
    """A line that is not one of a decision record: the text names file, line number and reason."""

    def __init__(self, path: Path, number: int, reason: str) -> None:
        super().__init__(f"{path}, line {number}: {reason}")
        self.path = path
        self.number = number


class NoSuchRequest(LookupError):  # noqa: N818 (what is wrong is the question, not the record)
    """No request, or more than one, fits what was asked for."""


@dataclass(slots=True)
class Case:
    """All that is on record of one request. The last decision is the one that was carried out."""

    request_id: str
    decisions: list[DecisionRecord] = field(default_factory=list)
    observation: ObservationRecord | None = None

    @property
    def decision(self) -> DecisionRecord | None:
        return self.decisions[-1] if self.decisions else None

    def add(self, line: Line) -> None:
        if isinstance(line, DecisionRecord):
            self.decisions.append(line)
        else:
            self.observation = line


def records(directory: Path) -> Iterator[Line]:
    """Every line, oldest first. Raises `RecordError` and, for the directory, OSError."""
    return _lines(record_files(directory), lambda _: True)


def find(directory: Path, request_id: str) -> Case:
    """The request with this id, or else the only one whose id begins so. Raises `NoSuchRequest`, `RecordError`."""
    quoted = _encode(request_id)[:-1]
    heads = (_DECISION + quoted, _OBSERVATION + quoted)
    cases = _cases(_lines(record_files(directory), lambda raw: raw.startswith(heads)))
    if request_id in cases:
        return cases[request_id]
    if not cases:
        raise NoSuchRequest(f"no request {request_id!r} is on record in {directory}")
    if len(cases) > 1:
        some = ", ".join(list(cases)[:5])
        raise NoSuchRequest(f"{len(cases)} requests on record begin with {request_id!r}: {some}")
    return next(iter(cases.values()))


def last(directory: Path) -> Case:
    """The request that was decided on last. Raises `NoSuchRequest`, `RecordError`."""
    for path in reversed(record_files(directory)):
        if (newest := _last_of(path)) is not None:
            return find(directory, newest.request_id)
    raise NoSuchRequest(f"no decision is on record in {directory}")


def slowest(directory: Path, count: int) -> list[Case]:
    """The `count` requests with the longest observed TTFT that have a decision on record, slowest first."""
    files = record_files(directory)
    timed = (
        (line.ttft_s, line.at_s, line.request_id)
        for line in _lines(files, lambda raw: raw.startswith(_OBSERVATION))
        if isinstance(line, ObservationRecord) and line.ttft_s is not None
    )
    ids = list(dict.fromkeys(request_id for _, _, request_id in heapq.nlargest(count, timed)))
    quoted = {_encode(request_id) for request_id in ids}
    cases = _cases(_lines(files, lambda raw: _quoted_id(raw) in quoted))
    return [cases[request_id] for request_id in ids if cases[request_id].decisions]


def _cases(lines: Iterator[Line]) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for line in lines:
        cases.setdefault(line.request_id, Case(line.request_id)).add(line)
    return cases


def _last_of(path: Path) -> DecisionRecord | None:
    number, newest = 0, b""
    for here, raw in _whole_lines(path):
        if raw.startswith(_DECISION):
            number, newest = here, raw
    line = _decoded(path, number, newest) if newest else None
    return line if isinstance(line, DecisionRecord) else None


def _lines(files: list[Path], wanted: Callable[[bytes], bool]) -> Iterator[Line]:
    for path in files:
        for number, raw in _whole_lines(path):
            if wanted(raw):
                yield _decoded(path, number, raw)


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line numbers and bytes. A crash cuts the last line of a file: it was never complete, and is left out."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    return
                if not raw.startswith((_DECISION, _OBSERVATION)):
                    raise RecordError(path, number, "this is not a line of a decision record")
                yield number, raw
    except FileNotFoundError:
        # Rotated away since the directory was listed.
        return


def _decoded(path: Path, number: int, raw: bytes) -> Line:
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(path, number, str(error)) from error


def _quoted_id(raw: bytes) -> bytes:
    """The request id of a line as JSON."""
    start = len(_DECISION if raw.startswith(_DECISION) else _OBSERVATION)
    return raw[start : raw.find(b'","', start) + 1]
