"""The documents of the repository, as tests read them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def documents() -> list[Path]:
    """Every Markdown document: those at the top and all under docs/."""
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def read(name: str) -> str:
    """A document's text, by its path from the repository's root."""
    return (ROOT / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """The text without fenced blocks, in which a link is no link."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def fenced(text: str, language: str) -> list[str]:
    """The contents of the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to a document's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row of a text, headings included, rules not."""
    rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in rows if any(cell.strip("-:") for cell in row)]
