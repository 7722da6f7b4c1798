"""Pauses after failures: doubled, bounded, and defined for an engine that is gone for days."""

from hypothesis import given
from hypothesis import strategies as st

from vicinal.gateway.backoff import doubled
from vicinal.gateway.feeds.replaying import AGAIN_S_MAX, PATIENCE_FACTOR_MAX, Patience
from vicinal.gateway.feeds.scrapes import BACKOFF_MAX, JITTER, pause_s

DAYS = 1_000_000
"""Failures in a row, one every few seconds."""


@given(st.floats(1e-3, 1e3), st.integers(0, DAYS), st.floats(1e-3, 1e6))
def test_it_doubles_up_to_the_most(first: float, times: int, most: float) -> None:
    assert doubled(first, times, most) == (first * 2.0**times if times < 50 and first * 2.0**times < most else most)


def test_a_scrape_of_an_engine_that_is_gone_for_days() -> None:
    assert pause_s(1.0, DAYS, 0.5) == BACKOFF_MAX
    assert pause_s(1.0, DAYS, 0.0) == BACKOFF_MAX * (1.0 - JITTER)


def test_a_replay_address_that_is_dead_for_days() -> None:
    patience = Patience(0.5)
    for _ in range(2_000):
        patience.failed(0.0)
    assert patience.longest_s == 0.5 * PATIENCE_FACTOR_MAX
    assert not patience.tries(AGAIN_S_MAX - 1e-6)
    assert patience.tries(AGAIN_S_MAX)
