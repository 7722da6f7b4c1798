"""Places from node labels: which label is which level, and what is missing is Unknown."""

import json

import pytest

from vicinal.domain.endpoint import Placement
from vicinal.topology.kubernetes import kubernetes_places
from vicinal.topology.placefile import PlaceFileError

pytestmark = pytest.mark.mission("A2")

NVIDIA = "network.topology.nvidia.com"
FABRIC = "fabric.topograph.run"


def node(name: str, **labels: str) -> dict[str, object]:
    """As the API server gives it, with fields that nobody here reads."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": "0", "labels": {"kubernetes.io/os": "linux", **labels}},
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }


def listed(*nodes: dict[str, object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}, indent=4)


def place(**labels: str) -> Placement:
    (found,) = kubernetes_places(listed(node("n1", **labels))).values()
    return found


@pytest.mark.parametrize(
    ("leaf", "pod", "third"),
    [
        (f"{NVIDIA}/block", f"{NVIDIA}/spine", f"{NVIDIA}/datacenter"),
        (f"{NVIDIA}/leaf", f"{NVIDIA}/spine", f"{NVIDIA}/core"),
        (f"{FABRIC}/tier-0", f"{FABRIC}/tier-1", f"{FABRIC}/tier-2"),
    ],
)
def test_the_names_of_each_time_mean_the_same(leaf: str, pod: str, third: str) -> None:
    labels = {leaf: "s1", pod: "s2", third: "s3"}
    assert place(**labels) == Placement("n1", "s1", "s2", "s3")
    zoned = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    assert place(**labels, **zoned) == Placement("n1", "s1", "s2", "z")


def test_zone_and_region_alone_say_nothing_of_leaf_and_pod() -> None:
    region = {"topology.kubernetes.io/region": "eu"}
    assert place(**region) == Placement("n1", "", "", "eu")
    assert place(**region, **{"topology.kubernetes.io/zone": "eu-1"}) == Placement("n1", "", "", "eu-1")
    assert place() == Placement("n1")


def test_an_nvlink_domain_is_a_leaf_where_no_switch_is_named_and_never_a_host() -> None:
    assert place(**{f"{NVIDIA}/accelerator": "nvl1"}) == Placement("n1", "nvl1")
    assert place(**{f"{NVIDIA}/accelerator": "nvl1", f"{NVIDIA}/block": "s1"}) == Placement("n1", "s1")
    assert place(**{f"{NVIDIA}/accelerator": "nvl1", f"{NVIDIA}/block": ""}) == Placement("n1", "nvl1")


def test_a_host_is_the_hostname_label_else_the_node_s_name() -> None:
    named = kubernetes_places(listed(node("n1.cluster.local", **{"kubernetes.io/hostname": "n1"}), node("n2")))
    assert named == {"n1": Placement("n1"), "n2": Placement("n2")}
    bare = kubernetes_places('{"items": [{"metadata": {"name": "n3"}}]}')
    assert bare == {"n3": Placement("n3")}
    assert kubernetes_places('{"items": []}') == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n "items": [\n  x\n ]\n}', "line 3: not JSON"),
        ('{\n "items": [\n', "line 3: not JSON"),
        ("", "line 1: not JSON"),
        ('{"kind": "Node"}', "not what `kubectl get nodes -o json` prints: Object missing required field `items`"),
        ('{"items": [{"metadata": {"name": 3}}]}', "Expected `str`, got `int` - at `$.items[0].metadata.name`"),
        (listed(node("a"), node("a")), "items[1]: another node has host a already"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(text: str, says: str) -> None:
    with pytest.raises(PlaceFileError) as refused:
        kubernetes_places(text)
    assert says in str(refused.value)
