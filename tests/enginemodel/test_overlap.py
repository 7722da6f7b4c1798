"""Layer-wise overlap: the formula against layers sent one by one, and the flow against the formula."""

from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.ids import EndpointId, LinkId
from vicinal.enginemodel.flows import Network
from vicinal.enginemodel.overlap import exposed_s, overlap
from vicinal.topology.graph import Level, Link, Path, Route, Topology

SECONDS = st.floats(0.01, 100.0)


def network(capacity: float) -> Network:
    ends = [EndpointId("a"), EndpointId("b")]
    return Network(
        Topology(ends, [Link(LinkId("l"), capacity, Level.LEAF)], lambda _a, _b: Path((0,), 0.0, Level.LEAF))
    )


def layer_by_layer_s(transfer_s: float, compute_s: float, layers: int) -> float:
    """Send each layer when it is there and its predecessor has left."""
    free_s = 0.0
    for layer in range(1, layers + 1):
        free_s = max(free_s, layer * compute_s / layers) + transfer_s / layers
    return free_s


@given(SECONDS, SECONDS, st.integers(1, 100))
def test_the_formula_is_what_sending_layers_comes_to(transfer_s: float, compute_s: float, layers: int) -> None:
    assert compute_s + exposed_s(transfer_s, compute_s, layers) == pytest.approx(
        layer_by_layer_s(transfer_s, compute_s, layers)
    )


@pytest.mark.parametrize(
    ("transfer_s", "compute_s", "layers", "left_s"),
    [
        (8.0, 4.0, 1, 8.0),  # one layer: nothing to overlap
        (1.0, 4.0, 80, 1 / 80),  # fast network: the last layer is left
        (8.0, 4.0, 4, 5.0),  # slow network: all but the 3 s in which earlier layers went
    ],
)
def test_what_is_left_after_the_prefill(transfer_s: float, compute_s: float, layers: int, left_s: float) -> None:
    assert exposed_s(transfer_s, compute_s, layers) == pytest.approx(left_s)


@settings(deadline=None)
@given(SECONDS, SECONDS, st.integers(1, 100), st.floats(0.0, 50.0))
def test_a_lone_flow_ends_when_the_formula_says(transfer_s: float, compute_s: float, layers: int, at_s: float) -> None:
    kv_bytes = 1e9
    net = network(kv_bytes / transfer_s)
    how = overlap(kv_bytes, compute_s, layers)
    net.start("kv", 0, 1, kv_bytes, at_s + how.begin_s, how.release)
    assert net.advance(at_s + compute_s) == []
    net.released("kv", at_s + compute_s)
    (finished,) = net.advance(1e9)
    assert finished.at_s == pytest.approx(at_s + compute_s + exposed_s(transfer_s, compute_s, layers))
    assert net.bytes_by_level["same_rack"] == kv_bytes


def test_the_last_layer_waits_for_a_prefill_that_is_late() -> None:
    """8 bytes in 4 layers, computed in 4 s: from second 1 to 4 at 2 bytes/s. Then 2 bytes wait until second 9."""
    net = network(100.0)
    how = overlap(8.0, 4.0, 4)
    net.start("kv", 0, 1, 8.0, how.begin_s, how.release)
    net.advance(2.0)
    assert net.rate_bytes_per_s("kv") == 2.0
    net.advance(5.0)
    assert net.rate_bytes_per_s("kv") == 0.0
    assert net.next_event_s() is None
    net.released("kv", 9.0)
    assert [each.at_s for each in net.advance(99.0)] == [9.02]


def test_layers_leave_room_for_others() -> None:
    """A flow that is fed at 2 bytes/s takes 2 of 10; when the rest is released it takes its half."""
    net = network(10.0)
    how = overlap(8.0, 4.0, 4)
    net.start("kv", 0, 1, 8.0, how.begin_s, how.release)
    net.start("other", 0, 1, 1e3, 0.0)
    net.advance(3.0)
    assert (net.rate_bytes_per_s("kv"), net.rate_bytes_per_s("other")) == (2.0, 8.0)
    net.released("kv", 3.0)
    assert (net.rate_bytes_per_s("kv"), net.rate_bytes_per_s("other")) == (5.0, 5.0)
    assert [each.at_s for each in net.advance(5.0)] == [pytest.approx(3.8)]


def test_a_flow_may_be_released_or_cancelled_at_any_time() -> None:
    net = network(4.0)
    how = overlap(8.0, 4.0, 4)
    net.start("early", 0, 1, 8.0, 1.0, how.release)
    net.released("early", 1.0)
    assert [each.at_s for each in net.advance(99.0)] == [3.0]
    net.start("gone", 0, 1, 8.0, 100.0, how.release)
    net.cancel("gone", 102.0)
    assert net.bytes_by_level["same_rack"] == 8.0 + 4.0
    assert net.flows_bytes_per_s().tolist() == [0.0]
    with pytest.raises(KeyError):
        net.released("gone", 103.0)


def test_stripes_are_released_together() -> None:
    class TwoRails:
        links = (Link(LinkId("l/0"), 5.0, Level.LEAF), Link(LinkId("l/1"), 5.0, Level.LEAF))
        slots: ClassVar = {EndpointId("a"): 0, EndpointId("b"): 1}

        def route(self, source: int, target: int, flow: str) -> Route:
            return Route(((0,), (1,)), 0.0, Level.LEAF)

    net = Network(TwoRails())
    how = overlap(8.0, 4.0, 4)
    net.start("kv", 0, 1, 8.0, how.begin_s, how.release)
    net.advance(2.0)
    assert net.rate_bytes_per_s("kv") == 2.0
    assert net.flows_bytes_per_s().tolist() == [1.0, 1.0]
    net.released("kv", 4.0)
    assert [each.at_s for each in net.advance(99.0)] == [pytest.approx(4.2)]
