"""A Config as TOML text that `load` reads back to an equal Config.

The standard library reads TOML and does not write it. What is written here is the small part of TOML that the schema
can hold: strings, numbers, booleans, lists of strings, tables of numbers, and arrays of tables.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from vicinal.config.fleet import Config
from vicinal.config.wording import meaning


def to_toml(config: Config, *, commented: bool = False) -> str:
    """The whole configuration, defaults included. `commented` puts each section's and key's meaning above it."""
    lines: list[str] = []
    seen: set[type] = set()
    for section in fields(Config):
        value = getattr(config, section.name)
        if isinstance(value, tuple):
            for entry in value:
                lines += _table(f"[[{section.name}]]", section.name, entry, commented and type(entry) not in seen)
                seen.add(type(entry))
        else:
            lines += _table(f"[{section.name}]", section.name, value, commented)
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(header: str, name: str, value: Struct, commented: bool) -> Iterator[str]:
    if commented:
        yield from _comment(" ".join((type(value).__doc__ or "").split()))
    yield header
    inner: dict[str, Mapping[str, Any]] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if isinstance(item, Mapping):
            inner[field.name] = item
        elif item is not None:
            if commented:
                yield from _comment(meaning(field.type))
            yield f"{field.name} = {scalar(item)}"
    yield ""
    for key, table in inner.items():
        if table:
            yield f"[{name}.{key}]"
            yield from (f"{_string(each)} = {scalar(item)}" for each, item in table.items())
            yield ""


def _comment(text: str) -> Iterator[str]:
    yield f"# {text}"


def scalar(value: Any) -> str:
    if isinstance(value, Enum):
        return _string(value.value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(scalar, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _string(text: str) -> str:
    """JSON's escapes are TOML's, except that TOML also wants DEL escaped and forbids surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
