"""The files of hashed API keys: `[[key]]` tables, read as strictly as the configuration itself.

Nothing of what stands at a key's id or hash is quoted in an error: somebody may have put the key itself there.
"""

import datetime
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from vicinal.config.build import Where, build_as
from vicinal.config.lines import line_of
from vicinal.config.problems import ConfigError, Key, Problem, key_text, nearest
from vicinal.config.schema import Name

UNQUOTED = {"quoted": False}
Id = Annotated[str, Meta(pattern="^[0-9a-f]{12}$", extra=UNQUOTED, description="12 hexadecimal digits, in the key.")]
Hash = Annotated[
    str, Meta(pattern="^[0-9a-f]{64}$", extra=UNQUOTED, description="SHA-256 of the whole key: 64 hexadecimal digits.")
]
Expires = Annotated[
    datetime.date | None, Meta(description="From this day on (00:00 UTC) it opens nothing, as 2027-01-31.")
]


class AdminKey(Struct, frozen=True, kw_only=True):
    """A key of the operator's address."""

    id: Id
    sha256: Hash
    name: Annotated[str, Meta(description="For people.")] = ""
    expires: Expires = None


class ClientKey(Struct, frozen=True, kw_only=True):
    """A key of the API."""

    id: Id
    sha256: Hash
    tenant: Annotated[Name, Meta(description="On whose behalf its requests come.")]
    name: Annotated[str, Meta(description="For people.")] = ""
    models: Annotated[tuple[str, ...], Meta(description="The models that it opens. Empty: all.")] = ()
    service: Annotated[str, Meta(description="Class of service of its requests. Empty: interactive.")] = ""
    expires: Expires = None


class AdminKeys(Struct, frozen=True, kw_only=True):
    """The file at `access.admin_keys_file`."""

    key: tuple[AdminKey, ...] = ()


class ClientKeys(Struct, frozen=True, kw_only=True):
    """The file at `access.keys_file`."""

    key: tuple[ClientKey, ...] = ()


_File = TypeVar("_File", AdminKeys, ClientKeys)


def admin_keys(path: str | Path) -> tuple[AdminKey, ...]:
    """The keys in the file at `path`. Raises ConfigError with all that is wrong, by lines."""
    file, _ = _read(path, AdminKeys)
    return file.key


def client_keys(path: str | Path, services: Iterable[str]) -> tuple[ClientKey, ...]:
    """Like `admin_keys`; `services` are the classes of service that there are."""
    file, where = _read(path, ClientKeys)
    known = tuple(services)
    problems = [
        _problem(
            where, at, "service", f'no class of service is called "{entry.service}"{nearest(entry.service, known)}'
        )
        for at, entry in enumerate(file.key)
        if entry.service and entry.service not in known
    ]
    if problems:
        raise ConfigError(problems)
    return file.key


def _read(path: str | Path, schema: type[_File]) -> tuple[_File, Where]:
    try:
        text = Path(path).read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except OSError as error:
        raise ConfigError([Problem(str(path), "", error.strerror or "cannot be read")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(str(path), "", f"byte {error.start} is not UTF-8")]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(str(path), "", f"not valid TOML: {error}")]) from None

    def where(key: Key) -> str:
        for end in range(len(key), 0, -1):
            if line := line_of(text, key[:end]):
                return f"{path}:{line}"
        return str(path)

    file = build_as(schema, raw, where)
    ids: dict[str, int] = {}
    problems = [
        _problem(where, at, "id", f'"{entry.id}" is key[{first}] already')
        for at, entry in enumerate(file.key)
        if (first := ids.setdefault(entry.id, at)) != at
    ]
    if problems:
        raise ConfigError(problems)
    return file, where


def _problem(where: Where, at: int, name: str, words: str) -> Problem:
    key: Key = ("key", at, name)
    return Problem(where(key), key_text(key), words)
