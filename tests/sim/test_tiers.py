"""Simulated engines with tiers below HBM: hit rates that can be computed beforehand, and what they are worth."""

from collections.abc import Iterator

import pytest

from tests.sim.runs import prompt, run
from vicinal.sim.result import Result, result
from vicinal.sim.simulation import Simulation
from vicinal.workload.arrival import Arrival

DOCUMENTS, ROUNDS = 12, 5
TOKENS = 2048
ONE_ENGINE = "racks=1,prefill=0,decode=0,both=1,block_tokens=64"
"""Room for documents is their tokens, and two blocks for the end of the prompt and its answer."""


def in_turn() -> Iterator[Arrival]:
    """Every document once, and again, and again: the order that is worst for a cache that is too small."""
    for number in range(DOCUMENTS * ROUNDS):
        yield Arrival(20.0 * number, prompt((number % DOCUMENTS, TOKENS), (1000 + number, 32)), 1)


def figures(made: Simulation) -> Result:
    return result(made.measures, "cost", 0, None, 1.0)


def served(room_for: int, host_for: int = 0, ssd_for: int = 0) -> Result:
    return figures(
        run(
            in_turn(),
            cluster=ONE_ENGINE,
            kv_tokens=str(room_for * TOKENS + 128),
            host_tokens=str(host_for * TOKENS),
            ssd_tokens=str(ssd_for * TOKENS),
        )
    )


@pytest.mark.parametrize(
    ("room_for", "host_for", "ssd_for", "by_tier"),
    [
        (3, 0, 0, {}),
        (3, DOCUMENTS - 1, 0, {}),
        (3, DOCUMENTS, 0, {"hbm": 0.0, "host": 1.0}),
        (3, DOCUMENTS + 3, 0, {"hbm": 0.0, "host": 1.0}),
        (3, 5, DOCUMENTS, {"hbm": 0.0, "ssd": 1.0}),
        (DOCUMENTS + 1, DOCUMENTS, 0, {}),
    ],
)
def test_a_cycle_is_found_where_it_fits_and_nowhere_above(
    room_for: int, host_for: int, ssd_for: int, by_tier: dict[str, float]
) -> None:
    """LRU and a cycle: a cache that is smaller than the cycle never hits, one that is not always does."""
    got = served(room_for, host_for, ssd_for)
    found = (ROUNDS - 1) / ROUNDS * TOKENS / (TOKENS + 32)
    fits = max(room_for, host_for, ssd_for) >= DOCUMENTS
    assert got.prefix_hit_rate == pytest.approx(found if fits else 0.0)
    assert got.hit_rate_by_tier == pytest.approx({tier: share * found for tier, share in by_tier.items()})


def test_loading_takes_what_its_bytes_take_and_saves_the_compute() -> None:
    without, host, ssd = served(3), served(3, DOCUMENTS), served(3, 5, DOCUMENTS)
    kv_bytes = TOKENS * 327_680
    assert without.ttft_s.p50 is not None
    assert host.ttft_s.p50 is not None
    assert ssd.ttft_s.p50 is not None
    assert ssd.ttft_s.p50 - host.ttft_s.p50 == pytest.approx(kv_bytes / 7e9, rel=1e-6)
    assert host.ttft_s.p50 < without.ttft_s.p50 < ssd.ttft_s.p50, "an engine loads whether it pays or not"
