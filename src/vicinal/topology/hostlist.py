"""Hostlists: Slurm's short form of many names. `h[1-3,07]-ib[0-1],login` is h1-ib0, h1-ib1, h2-ib0, …, login."""

import re
from collections.abc import Iterator
from itertools import product
from math import prod

NAMES_MAX = 65_536

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> list[str]:
    """All names in order. Leading zeros of a range's first number are kept: `n[08-10]` is n08, n09, n10.

    Raises ValueError for what is no hostlist, and for more than `NAMES_MAX` names.
    """
    names: list[str] = []
    for item in _items(text):
        parts = [_numbers(match[1]) if match[2] is None else [match[2]] for match in _PART.finditer(item)]
        if not parts or "".join(match[0] for match in _PART.finditer(item)) != item:
            raise ValueError(f'"{item}" is no hostlist; expected names like h1,h2 or h[1-8,10]')
        if len(names) + prod(map(len, parts)) > NAMES_MAX:
            raise ValueError(f'"{item}" makes more than {NAMES_MAX} names')
        names += ["".join(combination) for combination in product(*parts)]
    return names


def _items(text: str) -> Iterator[str]:
    """Split at commas that are not in brackets."""
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for word in text.split(","):
        found = _RANGE.fullmatch(word)
        if found is None:
            raise ValueError(f'"[{text}]" is no range; expected numbers and ranges like [1-8,10]')
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first):
            raise ValueError(f'"[{text}]" runs backwards: {last} is below {first}')
        if int(last) - int(first) >= NAMES_MAX:
            raise ValueError(f'"[{text}]" makes more than {NAMES_MAX} names')
        numbers += [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return numbers
