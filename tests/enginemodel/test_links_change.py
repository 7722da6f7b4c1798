"""Links that fail, slow down or carry other traffic, by hand; and what is reported of them."""

from itertools import cycle, pairwise

import numpy as np
import pytest

from vicinal.domain.ids import EndpointId, LinkId
from vicinal.enginemodel.background import Background, OnOff
from vicinal.enginemodel.flows import Network
from vicinal.enginemodel.linkfaults import LinkFault, LinkFaults, drawn_faults
from vicinal.enginemodel.telemetry import LevelLoad, level_loads
from vicinal.topology.graph import Level, Link, Path, Topology
from vicinal.topology.naming import UnknownLinkError

pytestmark = pytest.mark.mission("A8")

LINKS = (
    Link(LinkId("a/tx"), 10.0, Level.LEAF),
    Link(LinkId("leaf/r1/up"), 10.0, Level.POD),
    Link(LinkId("leaf/r2/up"), 30.0, Level.POD),
)


def network() -> Network:
    """Endpoint 0 sends to 1 over its interface and the uplink of r1."""
    ends = [EndpointId("a"), EndpointId("b")]
    return Network(Topology(ends, LINKS, lambda _a, _b: Path((0, 1), 0.0, Level.POD)))


def end_s(net: Network, faults: LinkFaults | Background, until_s: float = 100.0) -> float:
    """Drive both to the end of the only flow."""
    while True:
        changes, moves = faults.next_event_s(), net.next_event_s()
        now = min(each for each in (changes, moves, until_s) if each is not None)
        if finished := net.advance(now):
            return finished[0].at_s
        assert now < until_s, "the flow never ends"
        faults.apply(net, now)


@pytest.mark.parametrize(
    ("faults", "ends"),
    [
        ([], 10.0),
        ([LinkFault("leaf/r1/up", 2.0, 5.0, 0.0)], 13.0),  # 20 of 100 bytes, nothing for 3 s, then the other 80
        ([LinkFault("leaf/r1/up", 2.0, 6.0, 0.5)], 12.0),  # half for 4 s: 20 bytes behind
        ([LinkFault("leaf/r1", 2.0, float("inf"), 0.1)], 82.0),  # 80 bytes at 1 byte/s
        ([LinkFault("leaf/r2/up", 0.0, 50.0, 0.0)], 10.0),  # not on its way
        ([LinkFault("leaf/r1/up", 0.0, 4.0, 0.5), LinkFault("leaf/r1/up", 2.0, 6.0, 0.5)], 13.5),  # 2 s at 5, 2.5, 5
        ([LinkFault("leaf/r1/up", 0.0, 2.0, 0.0), LinkFault("leaf/r1/up", 2.0, 4.0, 0.0)], 14.0),
    ],
)
def test_a_flow_slows_stalls_and_recovers(faults: list[LinkFault], ends: float) -> None:
    net = network()
    net.start("flow", 0, 1, 100.0, 0.0)
    assert end_s(net, LinkFaults(LINKS, faults)) == pytest.approx(ends)
    assert net.bytes_by_level["cross_rack"] == 100.0


def test_a_stalled_flow_has_no_next_event_and_no_rate() -> None:
    net = network()
    net.start("flow", 0, 1, 100.0, 0.0)
    net.scale(1, 0.0, 4.0)
    assert net.rate_bytes_per_s("flow") == 0.0
    assert net.next_event_s() is None
    assert net.advance(1e9) == []
    net.cancel("flow", 1e9)
    assert net.bytes_by_level["cross_rack"] == pytest.approx(40.0)


def test_nothing_to_send_needs_no_link() -> None:
    net = network()
    net.scale(1, 0.0, 0.0)
    net.start("empty", 0, 1, 0.0, 1.0)
    assert [each.at_s for each in net.advance(2.0)] == [1.0]


def test_a_flow_may_begin_on_a_dead_link_and_wait_for_it() -> None:
    net = network()
    faults = LinkFaults(LINKS, [LinkFault("leaf/r1/up", 0.0, 7.0, 0.0)])
    faults.apply(net, 0.0)
    net.start("flow", 0, 1, 100.0, 3.0)
    assert end_s(net, faults) == 17.0


def test_impossible_faults_are_named() -> None:
    with pytest.raises(UnknownLinkError, match=r'no link is called "leaf/r1/upp"; did you mean leaf/r1/up'):
        LinkFaults(LINKS, [LinkFault("leaf/r1/upp", 0.0, 1.0, 0.0)])
    with pytest.raises(ValueError, match=r"a/tx: from 2.0 s to 1.0 s"):
        LinkFaults(LINKS, [LinkFault("a/tx", 2.0, 1.0, 0.0)])
    with pytest.raises(ValueError, match=r"a/tx: -0.5"):
        LinkFaults(LINKS, [LinkFault("a/tx", 0.0, 1.0, -0.5)])
    net = network()
    with pytest.raises(ValueError, match=r"leaf/r1/up cannot have -1"):
        net.scale(1, -1.0, 0.0)
    with pytest.raises(ValueError, match=r"1.5 of link leaf/r1/up"):
        net.occupy(1, 1.5, 0.0)


def test_drawn_faults_follow_each_other_and_the_seed() -> None:
    """Sound 30 s and faulty 10 s on average: about 1,000 faults in 40,000 s, a quarter of the time."""

    def drawn(seed: int) -> tuple[LinkFault, ...]:
        return drawn_faults(["a/tx"], 0.25, 30.0, 10.0, 40_000.0, np.random.default_rng(seed))

    faults = drawn(3)
    assert faults == drawn(3) != drawn(4)
    assert all(a.until_s <= b.at_s for a, b in pairwise(faults))
    assert all(fault.factor == 0.25 and fault.at_s < 40_000.0 for fault in faults)
    # The count is a renewal count: variance ≈ n · (sd / mean)² of a period, here 1000 · (1000 / 1600): sd 25.
    assert len(faults) == pytest.approx(1000, abs=100)
    assert sum(fault.until_s - fault.at_s for fault in faults) == pytest.approx(10_000, rel=0.15)


class Halves:
    """A stream of the same number for ever: every exponential is then its mean × ln 2."""

    def random(self) -> float:
        return 0.5


def test_background_takes_its_share_while_it_is_on() -> None:
    """A draw of 0.5 is off at first: free for 2 s, then 8 of 10 bytes/s are taken for 2 s, and so on."""
    net = network()
    net.start("flow", 0, 1, 100.0, 0.0)
    mean_s = 2.0 / np.log(2.0)
    background = Background([1], OnOff(0.8, mean_s, mean_s), Halves())
    # 24 bytes in each period of 4 s: 96 in four, and the last 4 at 10 bytes/s.
    assert end_s(net, background) == pytest.approx(16.4)


def test_background_is_on_for_its_part_of_the_time_from_the_start() -> None:
    """400 links, on for 1 s in 4: the share of links that are on is 1/4 at any time, give or take 4 · 0.0217."""
    links = [Link(LinkId(f"l{n}"), 1.0, Level.POD) for n in range(400)]
    net = Network(Topology([], links, lambda _a, _b: Path((), 0.0, Level.POD)))
    background = Background(range(400), OnOff(0.5, 1.0, 3.0), np.random.default_rng(7))
    for now in (0.0, 0.3, 1.0, 5.0, 50.0):
        background.apply(net, now)
        taken = net.others_bytes_per_s()
        assert set(taken.tolist()) <= {0.0, 0.5}
        assert np.count_nonzero(taken) / 400 == pytest.approx(0.25, abs=0.087)
        next_s = background.next_event_s()
        assert next_s is not None
        assert next_s > now


def test_background_follows_its_seed() -> None:
    def changes(seed: int) -> list[float]:
        background = Background([0, 1], OnOff(0.5, 1.0, 1.0), np.random.default_rng(seed))
        times = []
        for _ in range(20):
            at_s = background.next_event_s()
            assert at_s is not None
            times.append(at_s)
            background.apply(network(), at_s)
        return times

    assert changes(1) == changes(1) != changes(2)
    assert changes(1) == sorted(changes(1))
    with pytest.raises(ValueError, match="more than 0 s"):
        Background([0], OnOff(0.5, 0.0, 1.0), np.random.default_rng(1))
    assert Background([], OnOff(0.5, 1.0, 1.0), Halves()).next_event_s() is None


def test_telemetry_says_what_is_in_use() -> None:
    """Interfaces: 4 of 10 bytes/s. Uplinks: 4 of the flow and 6 + 15 of others, of 40."""
    net = network()
    net.occupy(1, 0.6, 0.0)
    net.occupy(2, 0.5, 0.0)
    net.start("flow", 0, 1, 100.0, 0.0)
    net.advance(1.0)
    assert net.flows_bytes_per_s().tolist() == pytest.approx([4.0, 4.0, 0.0])
    assert net.others_bytes_per_s().tolist() == pytest.approx([0.0, 6.0, 15.0])
    loads = level_loads(net)
    assert loads == {Level.LEAF: LevelLoad(pytest.approx(0.4), 0.0), Level.POD: LevelLoad(pytest.approx(0.1), 0.525)}
    net.advance(1e3)
    assert level_loads(net)[Level.LEAF] == LevelLoad(0.0, 0.0)


def test_telemetry_measures_against_sound_links() -> None:
    """A link at a tenth that is full carries a tenth of what it should: it does not look busy, as on a real switch."""
    net = network()
    net.start("flow", 0, 1, 100.0, 0.0)
    net.scale(1, 0.1, 0.0)
    assert level_loads(net)[Level.POD] == LevelLoad(1.0 / 40.0, 0.0)


def test_flows_are_not_counted_while_they_wait() -> None:
    ends = [EndpointId("a"), EndpointId("b")]
    net = Network(Topology(ends, LINKS, lambda _a, _b: Path((0, 1), 0.5, Level.POD)))
    net.start("flow", 0, 1, 100.0, 0.0)
    for now, load in zip((0.0, 0.4, 0.5, 10.4, 10.5), (0.0, 0.0, 1.0, 1.0, 0.0), strict=True):
        net.advance(now)
        assert level_loads(net)[Level.LEAF].flows == load


def test_a_cycle_of_faults_is_driven_in_order() -> None:
    """Many changes at one call are applied at their own times, not at the call's."""
    late, asked = network(), network()
    faults = [LinkFault("leaf/r1", at, at + 1.0, factor) for at, factor in zip(range(0, 40, 2), cycle((0.0, 0.5)))]
    for net in (late, asked):
        net.start("flow", 0, 1, 100.0, 0.0)
    LinkFaults(LINKS, faults).apply(late, 60.0)
    assert late.advance(60.0)[0].at_s == pytest.approx(end_s(asked, LinkFaults(LINKS, faults)))
