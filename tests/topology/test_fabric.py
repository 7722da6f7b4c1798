"""A fabric is its tree taken apart: the same capacity in all, stripes on rails, flows on spines by hash."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import endpoint, racks
from tests.topology.fleets import fleets
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.enginemodel.flows import Network
from vicinal.topology.fabric import Fabric, Parallel
from vicinal.topology.graph import Level
from vicinal.topology.naming import UnknownLinkError, links_named
from vicinal.topology.tree import TreeNetwork, tree_topology

pytestmark = pytest.mark.mission("A2", "A8")

SHAPES = st.builds(Parallel, st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))


@settings(deadline=None, max_examples=60)
@given(fleets(), SHAPES)
def test_parts_carry_what_the_tree_carries(fleet: list[Endpoint], parallel: Parallel) -> None:
    tree = tree_topology(fleet, TreeNetwork(leaf_oversubscription=4.0))
    fabric = Fabric(tree, parallel)
    assert len({link.id for link in fabric.links}) == len(fabric.links)
    for link in tree.links:
        parts = links_named(fabric.links, link.id)
        assert {fabric.links[part].level for part in parts} == {link.level}
        assert sum(fabric.links[part].bytes_per_s for part in parts) == pytest.approx(link.bytes_per_s)
        number = 1 if link.level is Level.HOST else parallel.rails
        assert len(parts) == number * (parallel.spines if link.level >= Level.POD else 1)


@settings(deadline=None, max_examples=60)
@given(fleets(), SHAPES, st.text(max_size=5))
def test_a_flow_goes_the_tree_s_way_on_its_own_rail_and_spine(
    fleet: list[Endpoint], parallel: Parallel, flow: str
) -> None:
    tree = tree_topology(fleet, TreeNetwork())
    fabric = Fabric(tree, parallel)
    for source in range(len(fleet)):
        for target in range(len(fleet)):
            path, route = tree.path(source, target), fabric.route(source, target, flow)
            assert (route.level, route.latency_s) == (path.level, path.latency_s)
            assert len(route.stripes) == (parallel.rails if path.level > Level.HOST else 1)
            for rail, stripe in enumerate(route.stripes):
                spines = set()
                for tree_link, link in zip(path.links, stripe, strict=True):
                    assert link in links_named(fabric.links, tree.links[tree_link].id)
                    part = fabric.links[link].id.removeprefix(tree.links[tree_link].id).split("/")[1:]
                    if path.level > Level.HOST and parallel.rails > 1:
                        assert part.pop(0) == str(rail)
                    spines |= set(part)
                assert len(spines) <= 1, "one spine all the way"
            used = [link for stripe in route.stripes for link in stripe]
            assert len(set(used)) == len(used), "stripes share nothing"


@settings(deadline=None, max_examples=30)
@given(fleets(), st.integers(0, 9))
def test_one_rail_and_one_spine_is_the_tree(fleet: list[Endpoint], seed: int) -> None:
    tree = tree_topology(fleet, TreeNetwork())
    fabric = Fabric(tree, Parallel(seed=seed))
    assert fabric.links == tree.links
    for source in range(len(fleet)):
        for target in range(len(fleet)):
            assert fabric.route(source, target, "flow") == tree.route(source, target, "flow")


def spine_of(fabric: Fabric, flow: str) -> int:
    """The spine from the first rack's first endpoint to the second's."""
    uplink = fabric.route(0, 4, flow).stripes[0][1]
    return int(fabric.links[uplink].id.rsplit("/", 1)[1])


def test_flows_spread_over_spines_by_name_and_seed() -> None:
    """8,000 names on 8 spines: 1,000 each, with a standard deviation of 30."""
    fabric, other = (Fabric(tree_topology(racks(), TreeNetwork()), Parallel(spines=8, seed=seed)) for seed in (1, 2))
    taken = [spine_of(fabric, f"flow-{n}") for n in range(8_000)]
    assert taken == [spine_of(fabric, f"flow-{n}") for n in range(8_000)]
    assert all(870 < number < 1130 for number in Counter(taken).values())
    assert len(Counter(taken)) == 8
    same = sum(a == spine_of(other, f"flow-{n}") for n, a in enumerate(taken))
    assert 870 < same < 1130, "another seed is another hash"


def test_flows_that_collide_share_a_spine_while_another_is_idle() -> None:
    """Uplinks of 100 GB/s in all, 50 per spine; interfaces of 50. The tree carries two flows of 50; so do two spines,
    unless both flows take one."""
    fleet = racks(2, 2, 2, nic_bytes_per_s=50e9)
    tree = tree_topology(fleet, TreeNetwork(leaf_oversubscription=2.0, spine_latency_s=0.0))
    fabric = Fabric(tree, Parallel(spines=2))
    first = "flow-0"
    here = next(name for name in map(str, range(99)) if spine_of(fabric, name) == spine_of(fabric, first))
    there = next(name for name in map(str, range(99)) if spine_of(fabric, name) != spine_of(fabric, first))

    def seconds(routing: Fabric, second: str) -> list[float]:
        net = Network(routing)
        net.start(first, 0, 4, 50e9, 0.0)
        net.start(second, 1, 5, 50e9, 0.0)
        return [flow.at_s for flow in net.advance(99.0)]

    assert seconds(fabric, there) == [1.0, 1.0]
    assert seconds(fabric, here) == [2.0, 2.0]
    assert seconds(Fabric(tree, Parallel()), here) == [1.0, 1.0]


def test_a_transfer_is_striped_over_rails_and_ends_with_the_last() -> None:
    """Interfaces of 25 GB/s are four rails of 6.25. With one rail at half, its quarter of the bytes takes double."""
    fleet = racks(1, 1, 1)
    fabric = Fabric(tree_topology(fleet, TreeNetwork(leaf_latency_s=0.0)), Parallel(rails=4))
    net = Network(fabric)
    net.start("sound", 0, 1, 50e9, 0.0)
    assert [flow.at_s for flow in net.advance(99.0)] == [2.0]
    (third,) = links_named(fabric.links, f"{fleet[0].id}/tx/2")
    net.scale(third, 0.5, 100.0)
    net.start("lame", 0, 1, 50e9, 100.0)
    net.advance(100.0)
    assert net.rate_bytes_per_s("lame") == 3.5 * 6.25e9
    assert [flow.at_s for flow in net.advance(199.0)] == [104.0]
    assert net.bytes_by_level["same_rack"] == 100e9


def test_a_rail_group_is_one_hop_and_other_groups_lie_across_the_spine() -> None:
    fleet = [
        endpoint(name, Role.BOTH, placement=Placement(name, group, "pod", "site"))
        for name, group in (("a", "su1"), ("b", "su1"), ("c", "su2"))
    ]
    fabric = Fabric(tree_topology(fleet, TreeNetwork()), Parallel(rails=2))

    def names(source: int, target: int) -> list[list[str]]:
        return [[fabric.links[link].id for link in stripe] for stripe in fabric.route(source, target, "flow").stripes]

    assert names(0, 1) == [["a/tx/0", "b/rx/0"], ["a/tx/1", "b/rx/1"]]
    assert names(0, 2) == [
        [f"a/tx/{rail}", f"leaf/su1/up/{rail}", f"leaf/su2/down/{rail}", f"c/rx/{rail}"] for rail in (0, 1)
    ]


def test_a_fabric_has_at_least_one_of_each() -> None:
    tree = tree_topology(racks(), TreeNetwork())
    for parallel in (Parallel(rails=0), Parallel(spines=0)):
        with pytest.raises(ValueError, match="at least one"):
            Fabric(tree, parallel)


def test_links_by_name() -> None:
    tree = tree_topology(racks(), TreeNetwork())
    fabric = Fabric(tree, Parallel(rails=2, spines=3))

    def named(name: str) -> list[str]:
        return [fabric.links[at].id for at in links_named(fabric.links, name)]

    assert named("leaf/r1/up") == [f"leaf/r1/up/{rail}/{spine}" for rail in range(2) for spine in range(3)]
    assert named("leaf/r1/up/1/2") == ["leaf/r1/up/1/2"]
    assert len(named("leaf/r1")) == 12
    assert named("r1-p1") == [f"r1-p1/{way}/{rail}" for way in ("tx", "rx") for rail in range(2)]
    with pytest.raises(UnknownLinkError, match=r'"leaf/r9/up"; did you mean leaf/r') as caught:
        links_named(tree.links, "leaf/r9/up")
    assert caught.value.nearest[0] in {"leaf/r1/up", "leaf/r2/up"}
    with pytest.raises(UnknownLinkError):
        links_named(tree.links, "leaf/r")
    with pytest.raises(UnknownLinkError, match=r'"x"$'):
        links_named([], "x")
