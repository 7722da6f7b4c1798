"""Bodies are changed by splicing.

Their top-level values stay the client's bytes (`msgspec.Raw`), so a prompt of 60 KB is scanned for its end and copied
once, never decoded and encoded again. Long ones are neither scanned nor copied (long_body.py).
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import overload

import msgspec

from vicinal.engines.long_body import LongBody

AnyBody = bytes | LongBody

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOTHING: Mapping[str, bytes] = MappingProxyType({})


@overload
def spliced(
    body: bytes,
    changes: Mapping[str, bytes],
    drop: Collection[str] = (),
    replaced: Mapping[str, bytes] = _NOTHING,
) -> bytes: ...


@overload
def spliced(
    body: AnyBody,
    changes: Mapping[str, bytes],
    drop: Collection[str] = (),
    replaced: Mapping[str, bytes] = _NOTHING,
) -> AnyBody: ...


def spliced(
    body: AnyBody,
    changes: Mapping[str, bytes],
    drop: Collection[str] = (),
    replaced: Mapping[str, bytes] = _NOTHING,
) -> AnyBody:
    """The JSON object `body` without the fields `drop` and with `changes`, whose values are JSON, byte for byte. Values
    of `replaced` stand in for fields that it has, and are not added to it.

    Raises ValueError (msgspec.DecodeError) when `body` is not a JSON object.
    """
    if isinstance(body, LongBody):
        return body.spliced(changes, drop, replaced)
    fields: dict[str, msgspec.Raw | bytes] = dict(_fields.decode(body))
    for name in drop:
        fields.pop(name, None)
    fields.update(changes)
    fields.update({name: value for name, value in replaced.items() if name in fields})
    if not fields:
        return b"{}"
    parts: list[msgspec.Raw | bytes] = []
    for name, value in fields.items():
        parts += (b",", msgspec.json.encode(name), b":", value)
    parts[0] = b"{"
    parts.append(b"}")
    return b"".join(parts)


def field_names(body: bytes) -> set[str]:
    """The fields of the JSON object `body`. Raises like `spliced`."""
    return set(_fields.decode(body))
