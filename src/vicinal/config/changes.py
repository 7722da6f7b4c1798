"""What of a new configuration a running gateway can take over: its endpoints, and with them their places."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import fields, replace

from vicinal.config.checks import findings
from vicinal.config.fleet import Config
from vicinal.config.problems import ConfigError, Problem, key_text


def with_endpoints(running: Config, new: Config, source: str) -> Config:
    """`running` with the endpoints of `new`, which is valid by itself.

    Raises ConfigError when the endpoints do not go with what stays as it was: other figures of the model, for example,
    that need a restart too.
    """
    merged = replace(running, endpoint=new.endpoint)
    if problems := [Problem(source, key_text(key), text) for key, text in findings(merged)]:
        raise ConfigError(problems)
    return merged


def restart_keys(running: Config, new: Config) -> Iterator[str]:
    """The keys whose new values only a restart brings: all that differ outside of [[endpoint]]."""
    for section in fields(Config):
        before, after = getattr(running, section.name), getattr(new, section.name)
        if section.name == "endpoint" or before == after:
            continue
        if not isinstance(before, Struct):
            yield section.name
            continue
        for field in fields(before):
            if getattr(before, field.name) != getattr(after, field.name):
                yield f"{section.name}.{field.name}"
