"""On which line of a TOML text a key stands.

tomllib keeps no positions. But a key is absent from every parsable prefix of the text that ends before it, and present
in every one that ends after it; so the key stands on the line after the longest parsable prefix that lacks it. That is
exact for multi-line values, quoted keys and inline tables too, and a bisection over lines needs few parses.
"""

import tomllib
from typing import Any

from vicinal.config.problems import Key


def line_of(text: str, key: Key) -> int | None:
    """The line (from 1) on which `key` is first there, or None when it never is. `text` must be valid TOML."""
    lines = text.split("\n")
    if not key or not _holds(tomllib.loads(text), key):
        return None
    without, having = 0, len(lines)
    while having - without > 1:
        middle = (without + having) // 2
        if _holds(_longest_prefix(lines, middle)[1], key):
            having = middle
        else:
            without = middle
    return _longest_prefix(lines, having - 1)[0] + 1


def _longest_prefix(lines: list[str], end: int) -> tuple[int, dict[str, Any]]:
    """The longest parsable prefix of at most `end` lines. A cut inside a multi-line value does not parse."""
    while True:
        try:
            return end, tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            end -= 1


def _holds(value: Any, key: Key) -> bool:
    for part in key:
        if isinstance(part, int):
            if not isinstance(value, list) or part >= len(value):
                return False
        elif not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True
