"""Places from the labels of Kubernetes nodes: the JSON of `kubectl get nodes -o json`.

A host is a node's `kubernetes.io/hostname`. NVIDIA's Topograph labels nodes with the switches above them, nearest
first: *block*, *spine*, *datacenter*. Its names changed over time and mean the same: *block* became *leaf* and
*datacenter* became *core*, and then all became *tiers*
(https://docs.nvidia.com/topograph/reference/node-labels-and-annotations). A node's leaf is the first of these switches
and its pod the second. Its site is its zone; without one the third switch, and without that its region.

Topograph's *accelerator* is an NVLink domain that may span hosts. Whether KV takes it depends on the engines' transfer
library, so it is not read as one host. It stands for the leaf of a node that names no leaf switch, because such a
domain is one rack or a part of one.
"""

from collections.abc import Mapping, Sequence

import msgspec

from vicinal.domain.endpoint import Placement
from vicinal.topology.placefile import BadLine, PlaceFileError, Places

HOST = "kubernetes.io/hostname"
LEAF = (
    "network.topology.nvidia.com/block",
    "network.topology.nvidia.com/leaf",
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/accelerator",
    "accelerator.topograph.run/domain",
)
POD = ("network.topology.nvidia.com/spine", "fabric.topograph.run/tier-1")
SITE = (
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/datacenter",
    "network.topology.nvidia.com/core",
    "fabric.topograph.run/tier-2",
    "topology.kubernetes.io/region",
)


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Metadata


class _Nodes(msgspec.Struct):
    items: list[_Node]


def kubernetes_places(text: str) -> Places:
    """Every node of the list. Raises PlaceFileError for what is not such a list, and for one host on two nodes."""
    try:
        nodes = msgspec.json.decode(text, type=_Nodes).items
    except msgspec.ValidationError as error:
        raise PlaceFileError([BadLine(0, f"not what `kubectl get nodes -o json` prints: {error}")]) from None
    except msgspec.DecodeError as error:
        raise PlaceFileError([BadLine(_line(text, str(error)), f"not JSON: {error}")]) from None
    places: dict[str, Placement] = {}
    bad: list[BadLine] = []
    for at, node in enumerate(nodes):
        labels = node.metadata.labels
        host = labels.get(HOST) or node.metadata.name
        if host in places:
            bad.append(BadLine(0, f"items[{at}]: another node has host {host} already ({HOST})"))
        places[host] = placement(host, labels)
    if bad:
        raise PlaceFileError(bad)
    return places


def placement(host: str, labels: Mapping[str, str]) -> Placement:
    """Where a host stands, by the labels of its node."""
    return Placement(host, _first(labels, LEAF), _first(labels, POD), _first(labels, SITE))


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _line(text: str, said: str) -> int:
    """The line of `(byte N)` in what the decoder said; the last line for a text that ends too early."""
    _, _, rest = said.rpartition("(byte ")
    digits = rest.rstrip(")")
    data = text.encode()
    return data[: int(digits) if digits.isdecimal() else len(data)].count(b"\n") + 1
