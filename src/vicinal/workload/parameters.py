"""Parameters of made workloads as words: `key=value,key=value` becomes a shape, and a shape's values become words.

A value is a number, a name, numbers or names with slashes between them (`2048/1024`), or a distribution: a number for a
fixed length, `exponential/MEAN`, or `lognormal/MEDIAN/SIGMA/MOST`. Nothing is guessed: a key or a value that is not
understood is an error that says what is.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from vicinal.workload.bounds import ParameterError
from vicinal.workload.lengths import Exponential, Fixed, Lengths, Lognormal

Shape = TypeVar("Shape")

_DISTRIBUTIONS: Mapping[str, type[Lengths]] = {
    "fixed": Fixed,
    "exponential": Exponential,
    "lognormal": Lognormal,
}
_BESIDE = ("seed", "count", "duration_s", "rate")
_EXPECTED = {
    int: "a whole number",
    float: "a number",
    str: "a name",
    tuple[int, ...]: "whole numbers with slashes between them, such as 2048/1024",
    tuple[float, ...]: "numbers with slashes between them, such as 0.5/20",
    tuple[str, ...]: "names with slashes between them, such as a/b",
    Lengths: "a number, exponential/MEAN or lognormal/MEDIAN/SIGMA/MOST",
}


def split(words: str) -> dict[str, str]:
    """`key=value,key=value` as a mapping. Raises ParameterError for what is not of that form or comes twice."""
    found: dict[str, str] = {}
    for word in words.split(",") if words else ():
        key, equals, value = (part.strip() for part in word.partition("="))
        if not (key and equals and value):
            raise ParameterError(f"{word.strip()!r} is not of the form key=value")
        if key in found:
            raise ParameterError(f"parameter {key!r} is given twice")
        found[key] = value
    return found


def shaped(shape: type[Shape], name: str, parameters: Mapping[str, str]) -> Shape:
    """The shape of the workload `name` with these parameters, defaults for the others. Raises ParameterError."""
    kinds = get_type_hints(shape)
    values: dict[str, Any] = {}
    for key, text in parameters.items():
        if key not in kinds:
            beside = f" ({', '.join(_BESIDE)} are given beside the name, not after it)" if key in _BESIDE else ""
            raise ParameterError(unknown(f"parameter of {name}", key, kinds) + beside)
        try:
            values[key] = _value(text, kinds[key])
        except ParameterError as error:
            raise ParameterError(f"{name}: {key}={text}: {error}") from None
        except (ValueError, TypeError):
            raise ParameterError(f"{name}: {key}={text}: expected {_EXPECTED[kinds[key]]}") from None
    try:
        return shape(**values)
    except ParameterError as error:
        raise ParameterError(f"{name}: {error}") from None


def unknown(kind: str, word: str, known: Iterable[str]) -> str:
    """What to say of a word that is not known: the nearest that is, and all of them."""
    names = list(known)
    near = get_close_matches(word, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {word!r}.{hint} Known: {', '.join(names)}"


def in_words(value: object) -> str:
    """A parameter's value as it is written; `shaped` reads it back."""
    match value:
        case Fixed(figure):
            return f"{figure:.15g}"
        case Exponential() | Lognormal():
            figures = (getattr(value, field.name) for field in fields(value))
            return "/".join([type(value).__name__.lower(), *(f"{figure:.15g}" for figure in figures)])
        case tuple():
            return "/".join(map(in_words, value))
        case float():
            return f"{value:.15g}"
        case _:
            return str(value)


def _value(text: str, kind: Any) -> object:
    if kind in (int, str):
        return kind(text)
    if kind is float:
        return _finite(text)
    if kind == tuple[int, ...]:
        return tuple(int(part) for part in text.split("/"))
    if kind == tuple[float, ...]:
        return tuple(_finite(part) for part in text.split("/"))
    if kind == tuple[str, ...]:
        return tuple(_name(part) for part in text.split("/"))
    word, *figures = text.split("/")
    if not figures:
        return Fixed(_finite(word))
    if word not in _DISTRIBUTIONS:
        raise ParameterError(unknown("distribution", word, _DISTRIBUTIONS))
    return _DISTRIBUTIONS[word](*map(_finite, figures))


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text.strip()


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
