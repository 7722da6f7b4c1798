"""The posted price of prefill: mean wait over mean service, the recent ones first."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.cost.price import PrefillPrice

pytestmark = pytest.mark.mission("C6")

SECONDS = st.floats(0.001, 100.0)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=20))
def test_at_one_moment_it_is_mean_wait_over_mean_service(seen: list[tuple[float, float]]) -> None:
    price = PrefillPrice()
    for wait_s, service_s in seen:
        price.observe(wait_s, service_s, now=7.0)
    waits, services = zip(*seen, strict=True)
    assert price.seconds_per_second == pytest.approx(sum(waits) / sum(services))
    assert price.mean_service_s == pytest.approx(sum(services) / len(services))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(SECONDS, SECONDS, st.floats(0.0, 60.0)), min_size=1, max_size=20))
def test_older_observations_weigh_less(seen: list[tuple[float, float, float]]) -> None:
    price, now, at = PrefillPrice(horizon_s=30.0), 0.0, []
    for wait_s, service_s, after_s in seen:
        now += after_s
        price.observe(wait_s, service_s, now)
        at.append(now)
    weights = [math.exp((time_s - now) / 30.0) for time_s in at]
    wait = sum(w * s[0] for w, s in zip(weights, seen, strict=True))
    service = sum(w * s[1] for w, s in zip(weights, seen, strict=True))
    assert price.seconds_per_second == pytest.approx(wait / service)
    assert price.mean_service_s == pytest.approx(service / sum(weights))


def test_nobody_is_delayed_before_anything_was_seen() -> None:
    price = PrefillPrice()
    assert (price.seconds_per_second, price.mean_service_s) == (0.0, 0.0)


def test_a_rush_raises_it_and_quiet_lowers_it() -> None:
    price = PrefillPrice(horizon_s=10.0)
    for n in range(20):
        price.observe(0.0, 1.0, n * 1.0)
    assert price.seconds_per_second == 0.0
    for n in range(20, 60):
        price.observe(4.0, 1.0, n * 1.0)
    assert price.seconds_per_second == pytest.approx(4.0, rel=0.05)
    for n in range(60, 120):
        price.observe(0.0, 1.0, n * 1.0)
    assert price.seconds_per_second < 0.05
