"""The posted price of prefill: the number waiting per server, the recent ones first."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.cost.price import SERVICE_GAIN, PrefillPrice

pytestmark = pytest.mark.mission("C6")

SECONDS = st.floats(0.001, 100.0)


def test_nobody_is_delayed_before_anything_was_seen() -> None:
    assert PrefillPrice().posted(5.0, 1.0) == 0.0


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(SECONDS, SECONDS, st.floats(0.0, 60.0)), min_size=1, max_size=20), st.floats(0.0, 100.0))
def test_it_is_the_mean_number_waiting_with_weights_that_fade(
    seen: list[tuple[float, float, float]], later_s: float
) -> None:
    price, now, service_s, waiting = PrefillPrice(horizon_s=30.0), 0.0, 0.0, 0.0
    for n, (wait_s, took_s, after_s) in enumerate(seen):
        now += after_s
        price.observe(wait_s, took_s, now)
        service_s += (SERVICE_GAIN if n else 1.0) * (took_s - service_s)
        kept = math.exp(-after_s / 30.0) if n else 0.0
        waiting = kept * waiting + (1.0 - kept) * wait_s / service_s
    assert price.mean_service_s == pytest.approx(service_s)
    kept = math.exp(-later_s / 30.0)
    assert price.posted(7.0, now + later_s) == pytest.approx(kept * waiting + (1 - kept) * 7.0 / service_s)


def test_a_rush_raises_it_and_quiet_lowers_it_without_a_dispatch() -> None:
    price = PrefillPrice(horizon_s=10.0)
    price.observe(0.0, 1.0, 0.0)
    for n in range(1, 60):
        price.observe(4.0, 1.0, n * 1.0)
    assert price.posted(4.0, 60.0) == pytest.approx(4.0, rel=0.05)
    assert price.posted(0.0, 110.0) < 0.05
