"""Environment overrides: `VICINAL_SERVER__PORT=9000` stands for `port = 9000` in `[server]`.

Two underscores part section and key. A variable is text, so numbers, booleans and lists (with commas between their
elements) are read from it; that is the only place where text becomes something else. Arrays of tables
(`[[endpoint]]`) and tables inside sections have no variables.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_origin

import msgspec
from msgspec.structs import fields

from vicinal.config.fleet import Config
from vicinal.config.problems import ConfigError, Key, Problem, key_text, nearest
from vicinal.config.wording import refusal

PREFIX = "VICINAL_"


def variables() -> dict[str, Key]:
    """Every variable that is read, with the key that it stands for."""
    return {variable: key for variable, key, _ in _settable()}


def overlay(raw: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[Key, str]]:
    """`raw` with the overrides in it, and which variable each overridden key came from. `raw` stays as it is.

    Raises ConfigError for a variable that names no key, or whose text is not what the key takes.
    """
    known = {variable: (key, annotation) for variable, key, annotation in _settable()}
    misspelt = {variable.replace("__", "_"): variable for variable in known}
    merged: dict[str, Any] = dict(raw)
    sources: dict[Key, str] = {}
    problems: list[Problem] = []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            if variable in misspelt:
                problems.append(Problem(variable, "", f"unknown variable; did you mean {misspelt[variable]}?"))
            elif "__" in variable:
                problems.append(Problem(variable, "", f"unknown variable{nearest(variable, known)}"))
            continue
        (section, name), annotation = known[variable]
        try:
            said = _list(text) if _is_list(annotation) else text
            value = msgspec.to_builtins(msgspec.convert(said, annotation, strict=False))
        except msgspec.ValidationError:
            problems.append(Problem(variable, key_text((section, name)), refusal(annotation, text)))
            continue
        table = merged.get(section, {})
        if isinstance(table, Mapping):
            merged[section] = {**table, name: value}
            sources[section, name] = variable
    if problems:
        raise ConfigError(problems)
    return merged, sources


def _settable() -> Iterator[tuple[str, tuple[str, str], Any]]:
    for section in fields(Config):
        if isinstance(section.type, type) and issubclass(section.type, msgspec.Struct):
            for field in fields(section.type):
                if not _is_table(field.type):
                    variable = f"{PREFIX}{section.name}__{field.name}".upper()
                    yield variable, (section.name, field.name), field.type


def _is_list(annotation: Any) -> bool:
    return get_origin(getattr(annotation, "__origin__", annotation)) is tuple


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")] if text.strip() else []


def _is_table(annotation: Any) -> bool:
    return get_origin(getattr(annotation, "__origin__", annotation)) is dict
