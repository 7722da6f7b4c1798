"""Reads a configuration: TOML text, environment, places -> Config, or one ConfigError that says all that is wrong."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vicinal.config.build import Where, build
from vicinal.config.checks import findings
from vicinal.config.environment import overlay
from vicinal.config.fleet import Config
from vicinal.config.lines import line_of
from vicinal.config.places import READERS, placed
from vicinal.config.problems import ConfigError, Key, Problem, key_text
from vicinal.config.toml import to_toml


def load(path: str | Path, environ: Mapping[str, str]) -> Config:
    """The configuration in the file at `path`, with the overrides in `environ` (see environment.py).

    Raises ConfigError; also when the file is not there or is not UTF-8.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([Problem(str(path), "", error.strerror or "cannot be read")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(str(path), "", f"byte {error.start} is not UTF-8")]) from None
    return parse(text, str(path), environ)


def parse(text: str, source: str, environ: Mapping[str, str]) -> Config:
    """Like `load`, for text at hand; `source` is what error messages call it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(source, "", f"not valid TOML: {error}")]) from None
    merged, variables = overlay(raw, environ)

    def where(key: Key) -> str:
        for end in range(len(key), 0, -1):
            if key[:end] in variables:
                return variables[key[:end]]
            if line := line_of(text, key[:end]):
                return f"{source}:{line}"
        return source

    return _checked(merged, where)


def over(config: Config, text: str, source: str) -> Config:
    """`config` with a piece of TOML on top: its keys take the place of those of the same section, its arrays of tables
    that of the whole array. `source` is what error messages call the piece.

    Raises ConfigError, as `parse` does.
    """
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(source, "", f"not valid TOML: {error}")]) from None
    merged = tomllib.loads(to_toml(config))
    for section, value in said.items():
        before = merged.get(section)
        merged[section] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value

    def where(key: Key) -> str:
        line = next((line for end in range(len(key), 0, -1) if (line := line_of(text, key[:end]))), None)
        return f"{source}:{line}" if line else source

    return _checked(merged, where)


def _checked(raw: Mapping[str, Any], where: Where) -> Config:
    config = placed(build(raw, where), where)
    if problems := [Problem(where(key), key_text(key), text) for key, text in findings(config)]:
        raise ConfigError(problems)
    return config


def files_of(path: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that `load` reads: the configuration, and the file of places that it names. Raises nothing."""
    try:
        raw, _ = overlay(tomllib.loads(path.read_text(encoding="utf-8")), environ)
    except (OSError, ValueError):
        return (path,)
    network = raw.get("network", {})
    named = [network.get(key) for key in READERS] if isinstance(network, Mapping) else []
    return (path, *(Path(name) for name in named if isinstance(name, str) and name))
