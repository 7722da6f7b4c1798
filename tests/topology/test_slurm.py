"""Places from topology.conf: the levels of its tree are ours, and a line that is wrong is named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import endpoint
from vicinal.domain.endpoint import Placement, Role
from vicinal.topology.graph import Level
from vicinal.topology.placefile import PlaceFileError
from vicinal.topology.slurm import slurm_places
from vicinal.topology.tree import shared_level

pytestmark = pytest.mark.mission("A2")

THREE_LEVELS = """\
# two pods of two racks
SwitchName=leaf1 Nodes=h[01-02]   # the first rack
switchname = leaf2 NODES="h[03-04]" LinkSpeed=200
SwitchName=leaf3 \\
    Nodes=h05,gpu-a

SwitchName=spine1 Switches=leaf[1-2]
SwitchName=spine2 Switches=leaf3
SwitchName=core Switches=spine[1-2]
"""


def test_three_levels_are_leaf_pod_and_site() -> None:
    assert slurm_places(THREE_LEVELS) == {
        "h01": Placement("h01", "leaf1", "spine1", "core"),
        "h02": Placement("h02", "leaf1", "spine1", "core"),
        "h03": Placement("h03", "leaf2", "spine1", "core"),
        "h04": Placement("h04", "leaf2", "spine1", "core"),
        "h05": Placement("h05", "leaf3", "spine2", "core"),
        "gpu-a": Placement("gpu-a", "leaf3", "spine2", "core"),
    }


def test_two_levels_have_no_site_and_one_has_no_pod() -> None:
    two = slurm_places("SwitchName=s1 Nodes=a\nSwitchName=s2 Nodes=b\nSwitchName=top Switches=s1,s2\n")
    assert two == {"a": Placement("a", "s1", "top", ""), "b": Placement("b", "s2", "top", "")}
    assert slurm_places("SwitchName=s1 Nodes=a") == {"a": Placement("a", "s1")}
    assert slurm_places("# nothing\n") == {}


def level(places: dict[str, Placement], one: str, other: str) -> Level:
    return shared_level(*(endpoint(host, Role.BOTH, placement=places[host]) for host in (one, other)))


def test_a_leaf_without_a_switch_above_is_as_far_as_unknown() -> None:
    places = dict(slurm_places("SwitchName=s1 Nodes=a,b\nSwitchName=s2 Nodes=c\n"))
    assert level(places, "a", "b") is Level.LEAF
    assert level(places, "a", "c") is Level.UNKNOWN


@st.composite
def trees(draw: st.DrawFn) -> tuple[str, dict[str, tuple[str, ...]]]:
    """A file of a tree of 2 to 5 levels in any order of lines, and the switches above each host, nearest first."""
    above: dict[str, tuple[str, ...]] = {}
    lines: list[str] = []

    def grow(name: str, chain: tuple[str, ...], depth: int) -> None:
        children = [f"{name}{n}" for n in range(draw(st.integers(1, 3)))]
        lines.append(
            f"SwitchName=s{name} {'Nodes' if depth == 1 else 'Switches'}="
            + ",".join(child if depth == 1 else f"s{child}" for child in children)
        )
        for child in children:
            if depth == 1:
                above[child] = (f"s{name}", *chain)
            else:
                grow(child, (f"s{name}", *chain), depth - 1)

    grow("h", (), draw(st.integers(2, 5)))
    return "\n".join(draw(st.permutations(lines))), above


@settings(deadline=None, max_examples=80)
@given(trees())
def test_the_level_of_two_hosts_is_that_of_their_lowest_common_switch(
    made: tuple[str, dict[str, tuple[str, ...]]],
) -> None:
    text, above = made
    places = dict(slurm_places(text))
    assert places.keys() == above.keys()
    for one, its in above.items():
        for other, others in above.items():
            if one == other:
                continue
            rank = next(n for n, switch in enumerate(its) if switch in others)
            assert level(places, one, other) is (Level.LEAF, Level.POD, *[Level.ACROSS] * 3)[rank]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SwitchName=s1 Nodes=a\nNodes=b\n", 'line 2: "Nodes=b" is no switch; expected SwitchName=NAME Nodes=HOSTS or'),
        ("SwitchName=s1\n", 'line 1: "SwitchName=s1" is no switch'),
        ("SwitchName=s1 Nodes=a Switches=s2\n", 'line 1: "SwitchName=s1 Nodes=a Switches=s2" is no switch'),
        ("SwitchName=s1 Nodes=a oops\n", 'line 1: "oops" is no KEY=VALUE'),
        ("SwitchName=s1 Nodes=a Nodes=b\n", "line 1: Nodes is said twice"),
        ("SwitchName=s1 Node=a\n", 'line 1: unknown parameter "Node"'),
        ("BlockName=b1 Nodes=a\n", 'line 1: unknown parameter "BlockName"; expected SwitchName=NAME'),
        ("BlockName=b1 Nodes=a\n", "topology/block is not read"),
        ("\nSwitchName=s1 \\\n Nodes=h[3-1]\n", 'line 2: "[3-1]" runs backwards'),
        ("SwitchName=s1 Nodes=a\nSwitchName=s1 Nodes=b\n", "line 2: switch s1 is on line 1 already"),
        (
            "SwitchName=leaf1 Nodes=a\nSwitchName=t Switches=leaf2\n",
            "line 2: no line has SwitchName=leaf2; did you mean leaf1?",
        ),
        (
            "SwitchName=s Nodes=a\nSwitchName=t Switches=s\nSwitchName=u Switches=s\n",
            "line 3: switch s is below t (line 2)",
        ),
        ("SwitchName=s Nodes=a\nSwitchName=t Nodes=b,a\n", "line 2: host a is under switch s already"),
        ("SwitchName=t Switches=u\nSwitchName=u Switches=t\n", "line 1: switch t is above itself"),
        ("SwitchName=t Switches=t\n", "line 1: switch t is above itself"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, says: str) -> None:
    with pytest.raises(PlaceFileError) as refused:
        slurm_places(text)
    assert says in str(refused.value)


def test_all_bad_lines_are_found_at_once() -> None:
    with pytest.raises(PlaceFileError) as refused:
        slurm_places("SwitchName=\nSwitchName=s Nodes=h[\nSwitchName=t Nodes=a\n")
    assert [bad.line for bad in refused.value.lines] == [1, 2]


@given(st.text('sSwitchName=odes[]-,#\\ \n1"', max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        places = slurm_places(text)
    except PlaceFileError:
        return
    assert all(place.host == host and place.leaf for host, place in places.items())
