"""docs/engines.md says of each dialect and each hand-off what the code says."""

from collections.abc import Iterator
from pathlib import Path

from vicinal.domain.endpoint import HandOff
from vicinal.engines.registry import DIALECTS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")


def rows(first: str) -> Iterator[list[str]]:
    """The rows of the table whose first heading is `first` and whose second is `hand_off` or Legs."""
    lines = iter(DOCUMENT.split("\n"))
    for line in lines:
        if line.startswith(f"| `{first}` |"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    return
                yield [cell.strip() for cell in row.strip("|").split("|")]


def yes(value: bool) -> str:
    return "yes" if value else "no"


def test_what_each_dialect_can_do() -> None:
    assert list(rows("dialect")) == [
        [
            f"`{speaks.name}`",
            ", ".join(speaks.can.hand_offs) or "none",
            yes(speaks.can.events),
            yes(speaks.can.metrics),
            yes(speaks.can.cache_salt),
            yes(speaks.can.tokenize),
            f"`{speaks.sign_path}`",
        ]
        for speaks in DIALECTS.values()
    ]


def test_what_each_hand_off_is() -> None:
    assert list(rows("hand_off")) == [
        [
            f"`{kind}`",
            "concurrent" if kind.concurrent else "one after the other",
            "at arrival" if kind.concurrent else "when the prefill is done",
            yes(not kind.halves_need_each_other),
            yes(kind.copies),
        ]
        for kind in HandOff
    ]
