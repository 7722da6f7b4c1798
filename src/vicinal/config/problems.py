"""What is wrong with a configuration: where, which key, and what to write instead."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

Key = tuple[str | int, ...]
"""A place in the file: section, position in an array of tables (from 0), key."""


_LISTED_MAX = 24


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `where` is `file:line`, or an environment variable's name."""

    where: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.text}" if self.key else f"{self.where}: {self.text}"


class ConfigError(ValueError):
    """A configuration that is refused. Its text has one line per problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[tuple[Problem, ...]]]:
        """It comes out of worker processes, too."""
        return ConfigError, (self.problems,)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` for the known word that `word` resembles most, else the known ones if they are few."""
    names = {name.lower(): name for name in known}
    if close := get_close_matches(word.lower(), names, n=1, cutoff=0.5):
        return f'; did you mean "{names[close[0]]}"?'
    return f"; known here: {', '.join(names.values())}" if 0 < len(names) <= _LISTED_MAX else ""


def key_text(key: Key) -> str:
    """`endpoint[2].url` for ("endpoint", 2, "url"); positions count from 0, as TOML's tables are read."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
