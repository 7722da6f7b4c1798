"""The network as links, and a path as the set of links that a transfer loads.

There are two views of one network over the same endpoints. What the scheduler believes is a `Topology`: one path per
pair, over links that stand for all that lies in parallel (topology/tree.py makes a tree of levels). What carries the
transfers is a `Routing`: it sends each flow its own way, over the parallel links themselves (topology/fabric.py). A
topology is also the plainest routing, where every flow takes its pair's path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.ids import EndpointId, LinkId


class Level(IntEnum):
    """The tightest level that two endpoints share, nearest first. UNKNOWN is priced like ACROSS, never as near."""

    DEVICE = 0
    HOST = 1
    LEAF = 2
    POD = 3
    ACROSS = 4
    UNKNOWN = 5

    @property
    def label(self) -> str:
        return _LABELS[self]

    @property
    def hops(self) -> int:
        """Switches between the two: 0 in a host, 1 under a leaf, 3 through a spine, 5 through the core."""
        return _HOPS[self]


_LABELS = {
    Level.DEVICE: "same_device",
    Level.HOST: "same_host",
    Level.LEAF: "same_rack",
    Level.POD: "cross_rack",
    Level.ACROSS: "cross_pod",
    Level.UNKNOWN: "unknown",
}
_HOPS = {Level.DEVICE: 0, Level.HOST: 0, Level.LEAF: 1, Level.POD: 3, Level.ACROSS: 5, Level.UNKNOWN: 5}


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of something shared: a network interface, a leaf's uplink, a host's internal fabric.

    `level` is the nearest level whose paths load it: LEAF for an interface, POD for a leaf's uplink.
    """

    id: LinkId
    bytes_per_s: float
    level: Level


@dataclass(frozen=True, slots=True)
class Path:
    """What a transfer from one endpoint to another loads. `links` are positions in `Topology.links`."""

    links: tuple[int, ...]
    latency_s: float
    level: Level


@dataclass(frozen=True, slots=True)
class Route:
    """How one transfer travels: in equal stripes at the same time, each over links of its own."""

    stripes: tuple[tuple[int, ...], ...]
    latency_s: float
    level: Level


class Routing(Protocol):
    """Where transfers really go. `slots` and positions in `links` are as in `Topology`."""

    @property
    def links(self) -> Sequence[Link]: ...

    @property
    def slots(self) -> Mapping[EndpointId, int]: ...

    def route(self, source: int, target: int, flow: str) -> Route:
        """The way of the transfer named `flow`; the same name always goes the same way."""
        ...


class Topology:
    """The links of a fleet and the paths between its endpoints.

    Paths are made once per pair, on demand, by `find_path`. Endpoints are known by slot (their position in
    `endpoints`), links by position in `links`.
    """

    def __init__(
        self,
        endpoints: Sequence[EndpointId],
        links: Sequence[Link],
        find_path: Callable[[int, int], Path],
    ) -> None:
        self.endpoints = tuple(endpoints)
        self.links = tuple(links)
        self.slots: Mapping[EndpointId, int] = {endpoint: slot for slot, endpoint in enumerate(self.endpoints)}
        self.bytes_per_s: NDArray[np.float64] = np.array([link.bytes_per_s for link in links], dtype=np.float64)
        self._find_path = find_path
        self._paths: dict[tuple[int, int], Path] = {}

    def path(self, source: int, target: int) -> Path:
        """The path that KV takes from slot `source` to slot `target`."""
        key = (source, target)
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = self._find_path(source, target)
        return path

    def route(self, source: int, target: int, flow: str) -> Route:  # noqa: ARG002 - every flow takes the pair's path
        """The pair's path as one stripe."""
        path = self.path(source, target)
        return Route((path.links,), path.latency_s, path.level)
