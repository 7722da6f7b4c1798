"""A tree of levels: who shares what, which links a transfer loads, and what they carry."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import endpoint, racks
from tests.topology.fleets import fleets
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.topology.graph import Level, Path, Topology
from vicinal.topology.tree import TreeNetwork, shared_level, tree_topology

pytestmark = pytest.mark.mission("A2")

NETWORK = TreeNetwork(
    host_bytes_per_s=400e9,
    host_latency_s=1e-6,
    leaf_latency_s=2e-6,
    spine_latency_s=3e-6,
    across_latency_s=4e-6,
    leaf_oversubscription=4.0,
    pod_oversubscription=2.0,
)


def at(name: str, host: str = "", leaf: str = "", pod: str = "", site: str = "") -> Endpoint:
    return endpoint(name, Role.BOTH, placement=Placement(host, leaf, pod, site), nic_bytes_per_s=20e9)


HERE = at("here", "h1", "r1", "podA", "s1")


@pytest.mark.parametrize(
    ("other", "level"),
    [
        (HERE, Level.DEVICE),
        (at("e", "h1", "r1", "podA", "s1"), Level.HOST),
        (at("e", "h2", "r1", "podA", "s1"), Level.LEAF),
        (at("e", "", "r1", "podA", "s1"), Level.LEAF),
        (at("e", "h3", "r2", "podA", "s1"), Level.POD),
        (at("e", "h4", "r3", "podB", "s1"), Level.ACROSS),
        (at("e", "h5", "r4", "podA", "s2"), Level.ACROSS),
        (at("e", "h6", "", "podA", "s1"), Level.UNKNOWN),
        (at("e"), Level.UNKNOWN),
        (at("e", "h7", "r5", "", "s1"), Level.UNKNOWN),
    ],
)
def test_level_is_the_tightest_known_to_be_shared(other: Endpoint, level: Level) -> None:
    assert shared_level(HERE, other) is level
    assert shared_level(other, HERE) is level


def test_two_unknown_places_are_not_the_same_place() -> None:
    assert shared_level(at("a"), at("b")) is Level.UNKNOWN
    assert shared_level(at("a", leaf="r1"), at("b", leaf="r2")) is Level.UNKNOWN
    assert shared_level(at("a", leaf="r1"), at("b", leaf="r1")) is Level.LEAF
    assert shared_level(at("a", host="h1"), at("b", host="h1")) is Level.HOST


def names(topology: Topology, path: Path) -> list[str]:
    return [topology.links[link].id for link in path.links]


def test_path_of_each_level() -> None:
    fleet = [
        at("a", "h1", "r1", "podA", "s1"),
        at("host", "h1", "r1", "podA", "s1"),
        at("leaf", "h2", "r1", "podA", "s1"),
        at("pod", "h3", "r2", "podA", "s1"),
        at("across", "h4", "r3", "podB", "s1"),
    ]
    topology = tree_topology(fleet, NETWORK)
    here, host, leaf, pod, across = (topology.path(0, slot) for slot in range(5))
    assert here == Path((), 0.0, Level.DEVICE)
    assert (names(topology, host), host.latency_s) == (["host/h1"], 1e-6)
    assert (names(topology, leaf), leaf.latency_s) == (["a/tx", "leaf/rx"], 2e-6)
    assert (names(topology, pod), pod.latency_s) == (["a/tx", "leaf/r1/up", "leaf/r2/down", "pod/rx"], 3e-6)
    kinds = [name.split("/")[0] + "/" + name.rsplit("/", 1)[-1] for name in names(topology, across)]
    assert kinds == ["a/tx", "leaf/up", "pod/up", "pod/down", "leaf/down", "across/rx"]
    assert across.latency_s == 4e-6


@settings(deadline=None, max_examples=60)
@given(fleets())
def test_a_path_and_its_way_back_load_opposite_directions(fleet: list[Endpoint]) -> None:
    topology = tree_topology(fleet, NETWORK)
    opposite = {"tx": "rx", "rx": "tx", "up": "down", "down": "up"}
    for source in range(len(fleet)):
        for target in range(len(fleet)):
            there, back = topology.path(source, target), topology.path(target, source)
            assert (there.level, there.latency_s) == (back.level, back.latency_s)
            if there.level is Level.HOST:
                assert there.links == back.links
                continue
            turned = [
                f"{stem}/{opposite[way]}" for stem, way in (name.rsplit("/", 1) for name in names(topology, there))
            ]
            assert sorted(turned) == sorted(names(topology, back))


@settings(deadline=None, max_examples=60)
@given(fleets())
def test_a_link_s_level_is_the_nearest_that_loads_it(fleet: list[Endpoint]) -> None:
    topology = tree_topology(fleet, NETWORK)
    paths = [topology.path(source, target) for source in range(len(fleet)) for target in range(len(fleet))]
    for at, link in enumerate(topology.links):
        levels = [path.level for path in paths if at in path.links]
        assert all(level >= link.level for level in levels)
        kind = link.id.split("/")[0]
        expected = {"host": Level.HOST, "leaf": Level.POD, "pod": Level.ACROSS}.get(kind, Level.LEAF)
        assert link.level is expected


@settings(deadline=None, max_examples=60)
@given(fleets(), st.floats(1e6, 1e12))
def test_unknown_costs_as_the_farthest(fleet: list[Endpoint], kv_bytes: float) -> None:
    """Between equal interfaces, no known level costs more than an Unknown one."""
    equal = [endpoint(e.id, e.role, placement=e.placement) for e in fleet]
    lost = endpoint("lost", Role.BOTH, placement=Placement())
    topology = tree_topology([*equal, lost], TreeNetwork())

    def seconds(path: Path) -> float:
        return path.latency_s + max(kv_bytes / topology.bytes_per_s[link] for link in path.links)

    unknown = [topology.path(slot, len(equal)) for slot in range(len(equal))]
    assert {path.level for path in unknown} == {Level.UNKNOWN}
    known = [
        topology.path(a, b)
        for a in range(len(equal))
        for b in range(len(equal))
        if a != b and topology.path(a, b).level is not Level.UNKNOWN
    ]
    for path in known:
        assert seconds(path) <= min(map(seconds, unknown))
        assert path.level.hops <= Level.UNKNOWN.hops


def rates(topology: Topology) -> dict[str, float]:
    return {str(link.id): link.bytes_per_s for link in topology.links}


def test_oversubscription() -> None:
    """r1: three interfaces of 20 GB/s at 4:1 make 15; podA: 15 + 5 at 2:1 make 10."""
    fleet = [
        *(at(f"a{n}", f"h{n}", "r1", "podA", "s1") for n in range(3)),
        at("b", "h9", "r2", "podA", "s1"),
        at("c", "h8", "r3", "podB", "s1"),
    ]
    got = rates(tree_topology(fleet, NETWORK))
    assert got["leaf/r1/up"] == got["leaf/r1/down"] == 15e9
    assert got["leaf/r2/up"] == got["leaf/r2/down"] == 5e9
    pods = sorted(rate for name, rate in got.items() if name.startswith("pod/"))
    assert pods == [2.5e9, 2.5e9, 10e9, 10e9]
    assert got["a0/tx"] == got["a0/rx"] == 20e9
    assert got["host/h1"] == 400e9


def test_named_uplinks_win_over_the_ratio() -> None:
    fleet = [at("a", "h1", "r1", "podA", "s1"), at("b", "h2", "r2", "podA", "s1")]
    network = TreeNetwork(pod_oversubscription=2.0, uplink_bytes_per_s={"r1": 7e9})
    got = rates(tree_topology(fleet, network))
    assert (got["leaf/r1/up"], got["leaf/r2/up"]) == (7e9, 20e9)
    assert {rate for name, rate in got.items() if name.startswith("pod/")} == {13.5e9}
    named = rates(tree_topology(fleet, TreeNetwork(uplink_bytes_per_s={"podA": 3e9})))
    assert {rate for name, rate in named.items() if name.startswith("pod/")} == {3e9}


def test_pods_of_one_name_in_two_sites_have_uplinks_of_their_own() -> None:
    fleet = [at("a", "h1", "r1", "pod", "s1"), at("b", "h2", "r2", "pod", "s2")]
    topology = tree_topology(fleet, TreeNetwork())
    path = topology.path(0, 1)
    assert path.level is Level.ACROSS
    assert len(set(path.links)) == 6
    assert len({link.id for link in topology.links}) == len(topology.links)
    assert all(topology.bytes_per_s[link] == 20e9 for link in path.links)


def test_links_are_in_a_fixed_order() -> None:
    """Interfaces by slot, then hosts, leaves and pods by first appearance: never by a set's order."""
    fleet = racks(2, 1, 1)
    expected = [
        *(f"r{r}-{x}1/{way}" for way in ("tx", "rx") for r in (1, 2) for x in "pd"),
        *(f"host/host-r{r}-{x}1" for r in (1, 2) for x in "pd"),
        *(f"leaf/r{r}/{way}" for way in ("up", "down") for r in (1, 2)),
    ]
    got = [str(link.id) for link in tree_topology(fleet, NETWORK).links]
    assert got[: len(expected)] == expected
    assert [name.rsplit("/", 1)[-1] for name in got[len(expected) :]] == ["up", "down"]
    swapped = [str(link.id) for link in tree_topology(fleet[::-1], NETWORK).links]
    assert swapped != got
    assert sorted(swapped) == sorted(got)


def test_an_empty_fleet_has_no_links() -> None:
    assert tree_topology([], NETWORK).links == ()
