"""The formats by name, and which of them a file is in."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from vicinal.workload.formats.agent import AGENT
from vicinal.workload.formats.azure import AZURE
from vicinal.workload.formats.burstgpt import BURSTGPT
from vicinal.workload.formats.clients import SERVEGEN, VTC
from vicinal.workload.formats.decision_record import DECISION_RECORD
from vicinal.workload.formats.lines import Lines, TraceError
from vicinal.workload.formats.mooncake import MOONCAKE
from vicinal.workload.formats.qwen_bailian import QWEN_BAILIAN
from vicinal.workload.formats.row import Format, Kind
from vicinal.workload.formats.rtp_llm import RTP_LLM
from vicinal.workload.formats.sharegpt import SHAREGPT


class TraceFormat(StrEnum):
    """The names of the formats that can be read."""

    MOONCAKE = "mooncake"
    AZURE = "azure"
    BURSTGPT = "burstgpt"
    QWEN_BAILIAN = "qwen-bailian"
    RTP_LLM = "rtp-llm"
    VTC = "vtc"
    SERVEGEN = "servegen"
    SHAREGPT = "sharegpt"
    AGENT = "agent"
    VICINAL = "vicinal"


FORMATS: dict[TraceFormat, Format] = {
    TraceFormat(each.name): each
    for each in (
        MOONCAKE,
        AZURE,
        BURSTGPT,
        QWEN_BAILIAN,
        RTP_LLM,
        VTC,
        SERVEGEN,
        SHAREGPT,
        AGENT,
        DECISION_RECORD,
    )
}

_SHOWN_MAX = 12
_COLUMNS_MIN = 3


@dataclass(frozen=True, slots=True)
class Head:
    """What the first line of a file says of its format."""

    place: str
    kind: Kind
    fields: frozenset[str]

    @property
    def found(self) -> str:
        shown = sorted(self.fields)
        more = f", … ({len(shown)} in all)" if len(shown) > _SHOWN_MAX else ""
        return f"{self.kind} with {', '.join(shown[:_SHOWN_MAX])}{more}"


def head_of(paths: Sequence[Path]) -> Head:
    """Of files that continue each other. Raises TraceError when they are empty, or begin like neither kind of file."""
    lines = Lines(paths)
    first = next(iter(lines), None)
    if first is None:
        raise TraceError(f"{lines.path}: the file is empty; a trace has at least one request")
    if first.lstrip().startswith((b"{", b"[")):
        try:
            keys = msgspec.json.decode(first, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TraceError(
                f"{lines.place}: expected a JSON object in each line, found {_start(first)}: {error}"
            ) from None
        return Head(lines.place, Kind.JSON_LINES, frozenset(keys))
    try:
        columns = next(csv.reader([first.decode("utf-8-sig")]))
    except (UnicodeDecodeError, csv.Error):
        columns = []
    if len(columns) < _COLUMNS_MIN:
        raise TraceError(
            f"{lines.place}: expected JSON lines or a CSV header, plain or gzip, found {_start(first)}. {_known()}"
        )
    return Head(lines.place, Kind.CSV, frozenset(name.strip() for name in columns))


def detect(head: Head) -> Format | None:
    """The format whose fields are all there; of several, the one that asks for most."""
    fitting = [each for each in FORMATS.values() if each.kind is head.kind and head.fields >= set(each.fields)]
    return max(fitting, key=lambda each: len(each.fields), default=None)


def chosen(head: Head, asked: TraceFormat | None) -> Format:
    """The format that was asked for, or else the one that the head fits. Raises TraceError when it fits none."""
    detected = detect(head)
    if asked is None:
        if detected is None:
            raise TraceError(f"{head.place}: {head.found}: no known format{_nearest(head)}. {_known()}")
        return detected
    wanted = FORMATS[asked]
    if head.kind is not wanted.kind or not head.fields >= set(wanted.fields):
        lacks = ", ".join(name for name in wanted.fields if name not in head.fields)
        like = f"; it looks like {detected.name}: ask for that or for none" if detected else _nearest(head)
        raise TraceError(
            f"{head.place}: no {wanted.name} trace: expected {wanted.expected}, found {head.found}"
            f"{f' (no {lacks})' if lacks else ''}{like}"
        )
    return wanted


def _nearest(head: Head) -> str:
    """What the most similar format lacks, when it is similar at all."""
    alike = max(
        (each for each in FORMATS.values() if each.kind is head.kind),
        key=lambda each: len(head.fields & set(each.fields)) / len(each.fields),
    )
    lacks = [name for name in alike.fields if name not in head.fields]
    return f"; nearest is {alike.name}, which also needs {', '.join(lacks)}" if len(lacks) < len(alike.fields) else ""


def _known() -> str:
    return f"Known are {', '.join(FORMATS)}; docs/workloads.md says what each has"


def _start(line: bytes) -> str:
    shown = line[:40].decode("utf-8", "backslashreplace").strip()
    return repr(shown + ("…" if len(line) > 40 else ""))
