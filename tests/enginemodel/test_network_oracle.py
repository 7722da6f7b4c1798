"""The modelled network against its naive twin, over random flows, cancellations and changes of links."""

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enginemodel.naive_network import NaiveNetwork
from vicinal.domain.ids import EndpointId, LinkId
from vicinal.enginemodel.flows import Network
from vicinal.topology.graph import Level, Link, Path, Topology

pytestmark = pytest.mark.mission("A8")

LINKS = 5
LATENCY_S = 0.25
PATHS = [(0,), (0, 1), (1, 2), (0, 2, 3), (3, 4), (4,), (1, 3), (2, 4)]
"""What a flow to endpoint n loads. Some meet, some only through others."""


@dataclass(frozen=True)
class Step:
    """`wait` quarters of a second after the last step: start a flow on a path, cancel one, or change a link."""

    wait: int
    what: str
    which: int
    size: int


STEPS = st.lists(
    st.builds(
        Step,
        wait=st.integers(0, 8),
        what=st.sampled_from(["start", "start", "start", "cancel", "scale", "occupy"]),
        which=st.integers(0, 7),
        size=st.integers(0, 40),
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.lists(st.integers(1, 9), min_size=LINKS, max_size=LINKS), st.booleans())
def test_every_flow_ends_when_the_naive_twin_says(steps: list[Step], capacity: list[int], asked: bool) -> None:
    topology = Topology(
        [EndpointId(f"e{n}") for n in range(len(PATHS) + 1)],
        [Link(LinkId(f"l{n}"), float(each), Level.LEAF) for n, each in enumerate(capacity)],
        lambda _, target: Path(PATHS[target - 1], LATENCY_S, Level.LEAF),
    )
    network, naive = Network(topology), NaiveNetwork(capacity)
    scale, taken = [Fraction(1)] * LINKS, [Fraction(0)] * LINKS
    seen: dict[str, float] = {}
    started: dict[str, int] = {}
    now = 0.0
    for n, step in enumerate(steps):
        now += step.wait / 4
        flow, link = f"f{n}", step.which % LINKS
        if asked:
            seen |= {each.id: each.at_s for each in network.advance(now)}
        if step.what == "start":
            started[flow] = step.size
            network.start(flow, 0, step.which + 1, step.size, now)
            naive.start(flow, PATHS[step.which], step.size, now, LATENCY_S)
        elif step.what == "cancel" and started:
            now += 0.0123456789  # never at the very moment at which the victim ends, where a rounding error decides
            victim = list(started)[step.which % len(started)]
            network.cancel(victim, now)
            naive.cancel(victim, now)
            if victim not in seen:
                naive.finished.pop(victim, None)  # it ended before, and nobody was told
        elif step.what in ("scale", "occupy"):
            share = Fraction(step.size % 5, 4)  # 0, a quarter, …, all
            (scale if step.what == "scale" else taken)[link] = share
            (network.scale if step.what == "scale" else network.occupy)(link, float(share), now)
            naive.change(link, capacity[link] * scale[link] * (1 - taken[link]), now)
    for link in range(LINKS):
        network.scale(link, 1.0, now)
        network.occupy(link, 0.0, now)
        naive.change(link, Fraction(capacity[link]), now)
    seen |= {each.id: each.at_s for each in network.advance(1e6)}
    naive.run(1e6)
    assert seen == {flow: pytest.approx(float(at)) for flow, at in naive.finished.items()}
    assert len(network) == 0
    assert network.next_event_s() is None
    assert network.flows_bytes_per_s().tolist() == [0.0] * LINKS
