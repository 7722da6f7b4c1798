"""The modelled network against hand calculations, and shares against the definition of max-min fairness."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.ids import EndpointId, LinkId
from vicinal.enginemodel.fairness import fair_rates
from vicinal.enginemodel.flows import Network
from vicinal.topology.graph import Level, Link, Path, Topology

LATENCY_S = 0.5


def network(capacity: list[float], paths: dict[tuple[int, int], tuple[int, ...]]) -> Network:
    slots = 1 + max(max(pair) for pair in paths)
    return Network(
        Topology(
            [EndpointId(f"e{i}") for i in range(slots)],
            [Link(LinkId(f"l{i}"), c, Level.LEAF) for i, c in enumerate(capacity)],
            lambda a, b: Path(paths[a, b], LATENCY_S, Level.LEAF),
        )
    )


def finishes(net: Network, until_s: float = 1e9) -> dict[str, float]:
    return {f.id: f.at_s for f in net.advance(until_s)}


def test_a_single_flow_takes_latency_plus_bytes_over_capacity() -> None:
    net = network([100.0, 20.0], {(0, 1): (0, 1)})
    net.start("a", 0, 1, 60.0, 2.0)
    assert net.next_event_s() == 2.5
    assert finishes(net) == {"a": 2.0 + LATENCY_S + 60.0 / 20.0}
    assert net.bytes_by_level["same_rack"] == 60.0
    assert len(net) == 0


@pytest.mark.parametrize("flows", [1, 2, 5])
def test_equal_flows_share_a_link_equally(flows: int) -> None:
    net = network([10.0], {(0, 1): (0,)})
    for i in range(flows):
        net.start(f"f{i}", 0, 1, 30.0, 0.0)
    assert finishes(net) == {f"f{i}": pytest.approx(LATENCY_S + flows * 3.0) for i in range(flows)}


def test_staggered_flows() -> None:
    """a alone from 0.5 to 2.5 (20 of 60 bytes), both at 5/s until b's 20 are over at 6.5, a's last 20 alone: 8.5."""
    net = network([10.0], {(0, 1): (0,)})
    net.start("a", 0, 1, 60.0, 0.0)
    net.start("b", 0, 1, 20.0, 2.0)
    assert finishes(net, 2.5) == {}
    assert net.rate_bytes_per_s("a") == net.rate_bytes_per_s("b") == 5.0
    assert finishes(net) == {"b": pytest.approx(6.5), "a": pytest.approx(8.5)}


def test_the_driver_may_be_late() -> None:
    """Stamps do not depend on how often the network is asked."""
    asked, late = (network([10.0, 7.0], {(0, 1): (0, 1), (2, 1): (1,)}) for _ in range(2))
    for net in (asked, late):
        net.start("a", 0, 1, 60.0, 0.0)
        net.start("b", 2, 1, 20.0, 1.0)
    seen: dict[str, float] = {}
    for tick in range(400):
        seen |= finishes(asked, tick * 0.1)
    assert seen == {k: pytest.approx(v) for k, v in finishes(late).items()}
    assert len(seen) == 2


def test_a_cancelled_flow_gives_its_share_back_and_counts_what_it_moved() -> None:
    net = network([10.0], {(0, 1): (0,)})
    net.start("a", 0, 1, 30.0, 0.0)
    net.start("b", 0, 1, 30.0, 0.0)
    net.cancel("a", 2.5)
    assert net.bytes_by_level["same_rack"] == pytest.approx(10.0)
    assert finishes(net) == {"b": pytest.approx(2.5 + 20.0 / 10.0)}
    assert net.bytes_by_level["same_rack"] == pytest.approx(40.0)
    net.cancel("never", 9.0)


def test_a_flow_that_is_cancelled_before_it_begins_moved_nothing() -> None:
    net = network([10.0], {(0, 1): (0,)})
    net.start("a", 0, 1, 30.0, 0.0)
    net.cancel("a", 0.25)
    assert net.next_event_s() is None
    assert net.advance(9.0) == []
    assert net.bytes_by_level["same_rack"] == 0.0


def test_a_flow_that_ends_while_another_is_dealt_with_is_still_news() -> None:
    net = network([10.0], {(0, 1): (0,)})
    net.start("a", 0, 1, 10.0, 0.0)
    net.start("b", 0, 1, 10.0, 4.0)
    assert net.next_event_s() == 4.0, "a ended at 1.5, and nobody was told"
    assert finishes(net, 4.0) == {"a": LATENCY_S + 1.0}
    assert net.next_event_s() == 4.0 + LATENCY_S


def test_nobody_is_told_of_a_flow_that_is_cancelled_after_its_end() -> None:
    net = network([10.0], {(0, 1): (0,)})
    net.start("a", 0, 1, 10.0, 0.0)
    net.start("b", 0, 1, 20.0, 0.0)
    net.cancel("a", 100.0)
    assert finishes(net) == {"b": LATENCY_S + 3.0}


def test_flows_that_begin_at_one_moment_share_from_it() -> None:
    net = network([10.0], {(0, 1): (0,)})
    net.start("a", 0, 1, 10.0, 0.0)
    net.start("b", 0, 1, 20.0, 0.0)
    net.advance(LATENCY_S)
    assert [net.rate_bytes_per_s(flow) for flow in "ab"] == [5.0, 5.0]
    assert finishes(net) == {"a": LATENCY_S + 2.0, "b": LATENCY_S + 3.0}


def test_a_path_without_links_takes_its_latency() -> None:
    net = network([1.0], {(0, 0): ()})
    net.start("a", 0, 0, 1e12, 1.0)
    assert finishes(net) == {"a": 1.5}


def test_refusals() -> None:
    net = network([1.0], {(0, 1): (0,)})
    net.start("a", 0, 1, 1.0, 0.0)
    with pytest.raises(ValueError, match="under way"):
        net.start("a", 0, 1, 1.0, 0.0)
    with pytest.raises(ValueError, match="cannot have"):
        net.start("b", 0, 1, -1.0, 0.0)


def all_rates(links_of: dict[int, tuple[int, ...]], capacity: list[float]) -> dict[int, float]:
    flows_on = {link: [flow for flow, links in links_of.items() if link in links] for link in range(len(capacity))}
    return fair_rates(links_of, flows_on, capacity, range(len(capacity)))


def drops(links_of: dict[int, tuple[int, ...]], capacity: list[int], drop: Fraction) -> dict[int, Fraction]:
    """Naive twin: give every flow that still has room on all its links one more drop, until none has."""
    rates = {flow: Fraction(0) for flow in links_of}
    growing = set(links_of)
    while growing:
        for flow in sorted(growing):
            used = [sum(rates[f] for f, ls in links_of.items() if link in ls) for link in links_of[flow]]
            if all(u + drop <= capacity[link] for u, link in zip(used, links_of[flow], strict=True)):
                rates[flow] += drop
            else:
                growing.discard(flow)
    return rates


FLOWS = st.dictionaries(
    st.integers(0, 5),
    st.sets(st.integers(0, 3), min_size=1, max_size=3).map(lambda s: tuple(sorted(s))),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(FLOWS, st.lists(st.integers(1, 20), min_size=4, max_size=4))
def test_rates_are_max_min_fair(links_of: dict[int, tuple[int, ...]], capacity: list[int]) -> None:
    rates = all_rates(links_of, [float(c) for c in capacity])
    load = {link: sum(rates[f] for f, ls in links_of.items() if link in ls) for link in range(4)}
    assert all(load[link] <= capacity[link] + 1e-9 for link in range(4))
    for flow, links in links_of.items():
        # It can only grow where a full link has somebody with more: then the allocation would not be max-min.
        assert any(
            load[link] >= capacity[link] - 1e-9
            and all(rates[f] <= rates[flow] + 1e-9 for f, ls in links_of.items() if link in ls)
            for link in links
        )


@settings(max_examples=25, deadline=None)
@given(FLOWS, st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_rates_equal_those_of_filling_drop_by_drop(links_of: dict[int, tuple[int, ...]], capacity: list[int]) -> None:
    drop = Fraction(1, 60)  # every share of up to 6 flows is a whole number of drops, or nearly so
    naive = drops(links_of, capacity, drop)
    rates = all_rates(links_of, [float(c) for c in capacity])
    assert rates.keys() == naive.keys()
    for flow, rate in rates.items():
        assert rate == pytest.approx(float(naive[flow]), abs=6 * float(drop))
