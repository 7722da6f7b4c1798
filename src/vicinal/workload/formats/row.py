"""What a format's reader makes of a line: a request, or a reason for leaving it out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from vicinal.workload.formats.lines import Lines
from vicinal.workload.prompt import Literal, Piece

TOKENS_MAX = 1 << 24
"""More tokens than that in a prompt or an answer is a damaged line: no model takes as many."""

_PRIVATE_STREAMS = 1 << 62


class BadRow(ValueError):  # noqa: N818 (it is about the row; who reads the file says where it is and makes it an error)
    """A line that this format cannot have. Its text is the reason."""


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a trace. `stamp_s` is its arrival on the trace's own clock.

    With `pause_s` it is a turn that follows the answer to the row before it of its session by so many seconds, and
    `stamp_s` says nothing. `assumed` says what had to be supposed for want of a figure, in words that are counted.
    Other fields are those of `Arrival`.
    """

    stamp_s: float
    pieces: tuple[Piece | Literal, ...]
    output_tokens: int
    session: str | None = None
    tenant: str | None = None
    model: str | None = None
    service: str | None = None
    priority: int = 0
    answer: Piece | Literal | None = None
    pause_s: float | None = None
    assumed: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is right but is no request that can be sent; `reason` is counted."""

    reason: str


NO_PROMPT = Skipped("no prompt tokens")
NO_OUTPUT = Skipped("no output tokens")


class Kind(StrEnum):
    """What a trace file is made of."""

    CSV = "CSV"
    JSON_LINES = "JSON lines"


@dataclass(frozen=True, slots=True)
class Format:
    """How to know a format and how to read it.

    A file is of this format when its first line has all `fields`: columns of a header, or keys of an object.
    `block_tokens` is how many tokens a hash id stands for; None where prompts have no ids. `read` takes lines and
    block_tokens (0 without ids), and raises BadRow at the line that is wrong.
    """

    name: str
    kind: Kind
    fields: tuple[str, ...]
    read: Callable[[Lines, int], Iterator[Row | Skipped]]
    block_tokens: int | None = None

    @property
    def expected(self) -> str:
        return f"{self.kind} with {', '.join(self.fields)}"


def left_out(prompt_name: str, prompt_tokens: int, output_name: str, output_tokens: int) -> Skipped | None:
    """Why a row with these lengths cannot be sent; None when it can. Raises BadRow for lengths that cannot be."""
    for name, tokens in ((prompt_name, prompt_tokens), (output_name, output_tokens)):
        if tokens < 0:
            raise BadRow(f"{name} {tokens} is negative")
        if tokens > TOKENS_MAX:
            raise BadRow(f"{name} {tokens} is more than any model takes ({TOKENS_MAX:,})")
    if prompt_tokens == 0:
        return NO_PROMPT
    return NO_OUTPUT if output_tokens == 0 else None


def private(lines: Lines, tokens: int) -> Piece:
    """Text that no other row has."""
    return Piece(_PRIVATE_STREAMS + lines.given, tokens)
