"""The table of docs/http.md, from the cases. `python -m tests.http.table` writes it there."""

from http import HTTPStatus
from pathlib import Path

from tests.http.cases import SECTIONS, Case

PAGE = Path(__file__).parent.parent.parent / "docs" / "http.md"
_BEGIN = "<!-- made by python -m tests.http.table -->\n"
_END = "<!-- end -->\n"


def table() -> str:
    """One row for each case, a heading for each section."""
    parts = []
    for title, cases in SECTIONS.items():
        parts.append(f"\n### {title}\n\n| Sent | Answer | Connection | Counter |\n|---|---|---|---|\n")
        parts.extend(_row(case) for case in cases)
    return "".join(parts) + "\n"


def placed(page: str) -> str:
    """The page with the table of today. Raises ValueError where its marks are missing."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"docs/http.md needs the lines {_BEGIN.strip()!r} and {_END.strip()!r}")
    return before + begin + table() + end + after


def _row(case: Case) -> str:
    said = ["answered" if status == 200 else f"{status} {HTTPStatus(status).phrase}" for status in case.statuses]
    answers = "all answered" if len(said) > 1 and len(set(said)) == 1 else ", then ".join(said)
    counter = f"`{case.kind}`" if case.kind else ""
    return f"| {case.name} | {answers} | {'kept' if case.kept else 'closed'} | {counter} |\n"


if __name__ == "__main__":
    PAGE.write_text(placed(PAGE.read_text()))
