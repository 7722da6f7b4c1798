"""What an operator chooses by words: a name, or a name with parameters, becomes a new object.

`name:key=value` or `name:key=value+key=value`: no comma and no blank, so that a list of them stays readable on a
command line. An object is new each time, because some keep state: two schedulers never share one.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import msgspec

Made = TypeVar("Made")


class UnknownWordError(ValueError):
    """Nothing has that name, or it has no such parameter or value; the message lists those that there are."""


@dataclass(frozen=True)
class Words(Generic[Made]):
    """What of one `kind` (policy, limit, …) there is, by name. Each is a dataclass whose field `name` is the whole text
    that it was asked for by; its other public fields that can be given are its parameters, all with defaults."""

    kind: str
    known: Mapping[str, Callable[..., Made]]

    def make(self, text: str) -> Made:
        """Raise `UnknownWordError` unless every word is known and every value can be."""
        name, colon, rest = text.partition(":")
        if name not in self.known:
            hint = _hint(name, self.known)
            raise UnknownWordError(f"unknown {self.kind} {name!r}.{hint} Known: {', '.join(self.known)}")
        given = self._given(name, rest) if colon else {}
        try:
            return self.known[name](name=text, **given)
        except ValueError as error:
            raise UnknownWordError(f"{self.kind} {text!r}: {error}") from None

    def parameters(self, name: str) -> dict[str, Any]:
        """The parameters of one of them, and their types."""
        made: Any = self.known[name]
        hints = get_type_hints(made, include_extras=True)
        public = [field.name for field in fields(made) if field.init and field.name[0] != "_"]
        return {key: hints[key] for key in public if key != "name"}

    def _given(self, name: str, text: str) -> dict[str, Any]:
        known, owner = self.parameters(name), f"{self.kind} {name!r}"
        given: dict[str, Any] = {}
        for part in re.split(r"\+(?=[a-z_]+=)", text):
            key, equals, value = part.partition("=")
            if not equals or key not in known:
                words = ", ".join(f"{each}={_values(kind)}" for each, kind in known.items())
                raise UnknownWordError(
                    f"{owner} has no parameter {part!r}.{_hint(key, known)} "
                    + (f"Known: {words}, joined by +" if words else "It has none")
                )
            if key in given:
                raise UnknownWordError(f"parameter {key!r} of {owner} is given twice")
            given[key] = _value(f"parameter {key!r} of {owner}", value, known[key])
        return given


def _value(parameter: str, text: str, kind: Any) -> Any:
    try:
        value = msgspec.convert(text, kind, strict=False)
        if isinstance(value, float) and not math.isfinite(value):
            raise msgspec.ValidationError(f"Expected a finite number, got {text}")
    except msgspec.ValidationError as error:
        reason = f"{text!r} is none of {_values(kind)}" if _choices(kind) else str(error)
        raise UnknownWordError(f"{parameter}: {reason}") from None
    return value


def _values(kind: Any) -> str:
    return "|".join(_choices(kind)) or "NUMBER"


def _choices(kind: Any) -> tuple[str, ...]:
    """The words that a parameter can be; none for a number."""
    return tuple(each for each in get_args(kind) if isinstance(each, str))


def _hint(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
