"""Plain TOML values -> the schema's Structs, strictly, with every problem found rather than the first.

A type that is wrong is not converted ("8000" is no port), a number that is not finite is refused, and an unknown key
is an error that names its nearest neighbour.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from vicinal.config.fleet import Config
from vicinal.config.problems import ConfigError, Key, Problem, key_text, nearest
from vicinal.config.wording import meaning, refusal

Where = Callable[[Key], str]
Schema = TypeVar("Schema", bound=msgspec.Struct)


def build(raw: Mapping[str, Any], where: Where) -> Config:
    """The configuration that `raw` says. `where` tells in which file and line (or variable) a key stands.

    Raises ConfigError with all unknown keys, missing keys and wrong values.
    """
    return build_as(Config, raw, where)


def build_as(schema: type[Schema], raw: Mapping[str, Any], where: Where) -> Schema:
    """Like `build`, for a file of another schema."""
    problems: list[Problem] = []
    built = _struct(schema, raw, (), where, problems)
    if problems:
        raise ConfigError(problems)
    assert isinstance(built, schema)
    return built


def item_struct(annotation: Any) -> type[msgspec.Struct] | None:
    """The Struct in `tuple[Struct, ...]`, which is an array of tables; else None."""
    if get_origin(annotation) is tuple and (item := get_args(annotation)[0]) and _is_struct(item):
        return item  # type: ignore[no-any-return]
    return None


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def _struct(
    schema: type[msgspec.Struct], raw: Any, key: Key, where: Where, problems: list[Problem]
) -> msgspec.Struct | None:
    if not isinstance(raw, Mapping):
        problems.append(Problem(where(key), key_text(key), f"expected a table, got {_name(raw)}"))
        return None
    known: dict[str, FieldInfo] = {field.name: field for field in fields(schema)}
    before = len(problems)
    values: dict[str, Any] = {}
    for name, value in raw.items():
        here = (*key, name)
        if name not in known:
            kind = "key" if key else "section"
            problems.append(Problem(where(here), key_text(here), f"unknown {kind}{nearest(name, known)}"))
        else:
            values[name] = _value(known[name].type, value, here, where, problems)
    for name, field in known.items():
        if field.required and name not in raw:
            problems.append(Problem(where(key), key_text((*key, name)), f"is missing. {meaning(field.type)}".rstrip()))
    return None if len(problems) > before else schema(**values)


def _value(annotation: Any, raw: Any, key: Key, where: Where, problems: list[Problem]) -> Any:
    if _is_struct(annotation):
        return _struct(annotation, raw, key, where, problems)
    if item := item_struct(annotation):
        if not isinstance(raw, list):
            problems.append(
                Problem(where(key), key_text(key), f"expected an array of tables, [[{key[-1]}]], got {_name(raw)}")
            )
            return None
        return tuple(_struct(item, each, (*key, at), where, problems) for at, each in enumerate(raw))
    try:
        value = msgspec.convert(raw, annotation)
    except msgspec.ValidationError:
        problems.append(Problem(where(key), key_text(key), refusal(annotation, raw)))
        return None
    numbers = value.values() if isinstance(value, Mapping) else (value,)
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        problems.append(Problem(where(key), key_text(key), f"expected a finite number, not {raw!r}"))
    return value


def _name(raw: Any) -> str:
    return type(raw).__name__
