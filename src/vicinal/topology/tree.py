"""A tree of levels: device < host < leaf < pod < site, with one network interface per endpoint.

Each endpoint has a sending and a receiving link. A host has one internal link that its endpoints share. A leaf has an
uplink and a downlink to its pod's spine; a pod has the same towards the rest. Within a host only the internal link is
loaded; under a leaf the two interfaces; beyond it also the uplink of one leaf and the downlink of the other.

A fleet's hosts have distinct names, and so have its leaves; pods of different sites may share one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import LinkId
from vicinal.topology.graph import Level, Link, Path, Topology


@dataclass(frozen=True, slots=True)
class TreeNetwork:
    """The figures of a tree. Latencies are one way, for the whole path at that level.

    A leaf's uplink carries the sum of its endpoints' interfaces divided by `leaf_oversubscription`, unless
    `uplink_bytes_per_s` names that leaf or pod. Pods likewise, with the sum of their leaves' uplinks.
    """

    host_bytes_per_s: float = 450e9
    host_latency_s: float = 5e-6
    leaf_latency_s: float = 10e-6
    spine_latency_s: float = 20e-6
    across_latency_s: float = 40e-6
    leaf_oversubscription: float = 1.0
    pod_oversubscription: float = 1.0
    uplink_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


def shared_level(a: Endpoint, b: Endpoint) -> Level:
    """The tightest level that two endpoints are known to share."""
    if a.id == b.id:
        return Level.DEVICE
    here, there = a.placement, b.placement
    if here.host and here.host == there.host:
        return Level.HOST
    if not (here.leaf and there.leaf):
        return Level.UNKNOWN
    one_pod = here.pod == there.pod and here.site == there.site
    if one_pod and here.leaf == there.leaf:
        return Level.LEAF
    if not (here.pod and there.pod):
        return Level.UNKNOWN
    return Level.POD if one_pod else Level.ACROSS


def tree_topology(endpoints: Sequence[Endpoint], network: TreeNetwork) -> Topology:
    """Build the links of a tree. What has no known leaf hangs under a leaf of its own; so do leaves and pods."""
    links: list[Link] = []

    def add(name: str, bytes_per_s: float, level: Level) -> int:
        links.append(Link(LinkId(name), bytes_per_s, level))
        return len(links) - 1

    sending = [add(f"{e.id}/tx", e.nic_bytes_per_s, Level.LEAF) for e in endpoints]
    receiving = [add(f"{e.id}/rx", e.nic_bytes_per_s, Level.LEAF) for e in endpoints]
    hosts = {
        host: add(f"host/{host}", network.host_bytes_per_s, Level.HOST)
        for host in _names(e.placement.host for e in endpoints if e.placement.host)
    }

    leaf_of = [_leaf_name(e) for e in endpoints]
    pod_of = {_leaf_name(e): _pod_name(e) for e in endpoints}
    plain_pod = {_pod_name(e): e.placement.pod for e in endpoints}
    leaf_bytes_per_s = {
        leaf: network.uplink_bytes_per_s.get(
            leaf,
            sum(e.nic_bytes_per_s for e, name in zip(endpoints, leaf_of, strict=True) if name == leaf)
            / network.leaf_oversubscription,
        )
        for leaf in _names(leaf_of)
    }
    leaf_up = {leaf: add(f"leaf/{leaf}/up", rate, Level.POD) for leaf, rate in leaf_bytes_per_s.items()}
    leaf_down = {leaf: add(f"leaf/{leaf}/down", rate, Level.POD) for leaf, rate in leaf_bytes_per_s.items()}
    pod_bytes_per_s = {
        pod: network.uplink_bytes_per_s.get(
            plain_pod[pod],
            sum(rate for leaf, rate in leaf_bytes_per_s.items() if pod_of[leaf] == pod) / network.pod_oversubscription,
        )
        for pod in _names(pod_of[leaf] for leaf in leaf_bytes_per_s)
    }
    pod_up = {pod: add(f"pod/{pod}/up", rate, Level.ACROSS) for pod, rate in pod_bytes_per_s.items()}
    pod_down = {pod: add(f"pod/{pod}/down", rate, Level.ACROSS) for pod, rate in pod_bytes_per_s.items()}

    def find_path(source: int, target: int) -> Path:
        level = shared_level(endpoints[source], endpoints[target])
        if level is Level.DEVICE:
            return Path((), 0.0, level)
        if level is Level.HOST:
            return Path((hosts[endpoints[source].placement.host],), network.host_latency_s, level)
        ends = (sending[source], receiving[target])
        if level is Level.LEAF:
            return Path(ends, network.leaf_latency_s, level)
        up, down = leaf_of[source], leaf_of[target]
        spine = (leaf_up[up], leaf_down[down])
        if level is Level.POD:
            return Path((ends[0], *spine, ends[1]), network.spine_latency_s, level)
        core = (pod_up[pod_of[up]], pod_down[pod_of[down]])
        return Path((ends[0], spine[0], *core, spine[1], ends[1]), network.across_latency_s, level)

    return Topology([e.id for e in endpoints], links, find_path)


def _leaf_name(endpoint: Endpoint) -> str:
    return endpoint.placement.leaf or f"unknown:{endpoint.id}"


def _pod_name(endpoint: Endpoint) -> str:
    """A pod's name with its site's, because only together they say which pod it is."""
    place = endpoint.placement
    if not (place.leaf and place.pod):
        return f"unknown:{_leaf_name(endpoint)}"
    return f"{place.site}/{place.pod}" if place.site else place.pod


def _names(names: Iterable[str]) -> list[str]:
    """Distinct names in order of appearance, so that link positions do not depend on a set's order."""
    return list(dict.fromkeys(names))
