"""Places of endpoints from a file that the operator has anyway: Slurm's topology.conf, or the nodes of Kubernetes.

An endpoint's host is looked up; what the endpoint says itself wins over the file, key by key. The configuration that
comes out says every place and names no file, so that it can be written down (a capture, a child process) and read
elsewhere.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from vicinal.config.build import Where
from vicinal.config.fleet import Config, Endpoint
from vicinal.config.problems import ConfigError, Problem, key_text, nearest
from vicinal.topology.kubernetes import kubernetes_places
from vicinal.topology.placefile import PlaceFileError, Places
from vicinal.topology.slurm import slurm_places

READERS: dict[str, Callable[[str], Places]] = {"slurm_topology": slurm_places, "kubernetes_nodes": kubernetes_places}
"""By key of [network]."""


def placed(config: Config, where: Where) -> Config:
    """`config` with the places that its file gives. Raises ConfigError: no such file, a bad line, an unknown host."""
    named = [key for key in READERS if getattr(config.network, key)]
    if not named:
        return config
    key = named[0]
    if len(named) > 1:
        raise ConfigError(
            [
                Problem(
                    where(("network", named[1])),
                    f"network.{named[1]}",
                    f"{key} places the hosts already; name one file",
                )
            ]
        )
    path = getattr(config.network, key)
    places = _read(key, path, where)
    if problems := list(_unknown_hosts(config, path, places, where)):
        raise ConfigError(problems)
    return replace(
        config,
        network=replace(config.network, **{key: ""}),
        endpoint=tuple(_with_place(entry, places) for entry in config.endpoint),
    )


def _read(key: str, path: str, where: Where) -> Places:
    try:
        return READERS[key](Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        what = error.strerror or "cannot be read"
    except UnicodeDecodeError as error:
        what = f"byte {error.start} is not UTF-8"
    except PlaceFileError as error:
        raise ConfigError(
            [Problem(f"{path}:{bad.line}" if bad.line else path, "", bad.text) for bad in error.lines]
        ) from None
    raise ConfigError([Problem(where(("network", key)), f"network.{key}", f"{path}: {what}")])


def _unknown_hosts(config: Config, path: str, places: Places, where: Where) -> Iterator[Problem]:
    for at, entry in enumerate(config.endpoint):
        if entry.host and not entry.leaf and entry.host not in places:
            key, near = ("endpoint", at, "host"), nearest(entry.host, places)
            yield Problem(
                where(key),
                key_text(key),
                f'"{entry.host}" is not in {path}: add it there, or say the endpoint\'s leaf{near}',
            )


def _with_place(entry: Endpoint, places: Places) -> Endpoint:
    place = places.get(entry.host)
    if place is None:
        return entry
    return replace(entry, leaf=entry.leaf or place.leaf, pod=entry.pod or place.pod, site=entry.site or place.site)
