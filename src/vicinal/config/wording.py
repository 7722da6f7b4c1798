"""A key's annotation in words, the same for error messages and for the documentation."""

import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

_TYPES: dict[Any, str] = {int: "integer", float: "number", str: "text", bool: "true or false", datetime.date: "date"}
_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))


def type_text(annotation: Any) -> str:
    """`integer, ≥ 0, ≤ 65535` for a port. Every annotation of the schema has such a text."""
    if hasattr(annotation, "__metadata__"):
        parts = [type_text(annotation.__origin__)]
        for meta in annotation.__metadata__:
            parts += [f"{sign} {getattr(meta, name):g}" for name, sign in _BOUNDS if getattr(meta, name) is not None]
            parts += ["not empty"] if meta.min_length else []
        return ", ".join(parts)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f'"{each.value}"' for each in annotation)
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(type_text(each) for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) is tuple:
        return f"list of {type_text(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return f"table of name = {type_text(get_args(annotation)[1])}"
    return _TYPES[annotation]


def meaning(annotation: Any) -> str:
    """What the key is for. A test sees to it that every key says so."""
    return next((meta.description for meta in getattr(annotation, "__metadata__", ()) if meta.description), "")


def refusal(annotation: Any, raw: Any) -> str:
    """Why `raw` is no value for the key: what was expected, and what came instead."""
    metas = [meta for meta in getattr(annotation, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    pattern = any(meta.pattern for meta in metas)
    hint = f" ({meaning(annotation)})" if pattern else ""
    quoted = all((meta.extra or {}).get("quoted", True) for meta in metas)
    return f"expected {type_text(annotation)}{hint}, not " + (repr(raw) if quoted else "what stands there")
