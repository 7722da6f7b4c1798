"""The path table says what `Topology.path` says, for every pair, and its common links are common."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.fleets import fleets
from vicinal.domain.endpoint import Endpoint
from vicinal.topology.graph import Level, Topology
from vicinal.topology.pathtable import PathTable, path_table
from vicinal.topology.tree import TreeNetwork, tree_topology

pytestmark = pytest.mark.mission("A2")


@st.composite
def tables(draw: st.DrawFn) -> tuple[Topology, PathTable]:
    fleet: list[Endpoint] = draw(fleets())
    slots = st.lists(st.integers(0, len(fleet) - 1), unique=True, max_size=len(fleet))
    topology = tree_topology(fleet, TreeNetwork())
    return topology, path_table(topology, draw(slots), draw(slots))


@settings(deadline=None, max_examples=60)
@given(tables())
def test_every_pair_is_as_topology_says(made: tuple[Topology, PathTable]) -> None:
    topology, table = made
    nothing = len(topology.links)
    for i, source in enumerate(table.sources.tolist()):
        for j, target in enumerate(table.targets.tolist()):
            path = topology.path(source, target)
            links = table.links[:, i, j].tolist()
            assert tuple(links[: len(path.links)]) == path.links
            assert set(links[len(path.links) :]) <= {nothing}
            assert table.level[i, j] == path.level
            assert bool(table.distinct[i, j]) == (source != target)
            assert table.latency_s[i, j] == (np.inf if source == target else path.latency_s)


@settings(deadline=None, max_examples=60)
@given(tables())
def test_common_links_are_exactly_those_of_all_paths(made: tuple[Topology, PathTable]) -> None:
    """A link of every path may bound them all from below; a link of only some of them would prune the best pair."""
    topology, table = made
    nothing = len(topology.links)
    sources, targets = table.sources.tolist(), table.targets.tolist()
    assert table.common_from.shape[1] == len(sources)
    assert table.common_to.shape[1] == len(targets)

    def common(pairs: list[tuple[int, int]]) -> set[int]:
        paths = [topology.path(*pair) for pair in pairs]
        links = [set(path.links) for path in paths if path.level is not Level.DEVICE]
        return set.intersection(*links) if links else set()

    for i, source in enumerate(sources):
        got = set(table.common_from[:, i].tolist()) - {nothing}
        assert got == common([(source, target) for target in targets])
    for j, target in enumerate(targets):
        got = set(table.common_to[:, j].tolist()) - {nothing}
        assert got == common([(source, target) for source in sources])
