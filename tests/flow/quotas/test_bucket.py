"""The bucket against a list of all that was ever charged, and its bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flow.quotas.naive import balance
from vicinal.flow.quotas.bucket import Bucket

EIGHTHS = st.integers(0, 80).map(lambda eighths: eighths / 8)
"""Such times and amounts add up exactly, so that "nothing left" is no matter of rounding."""


@pytest.mark.mission("B6")
@given(
    st.sampled_from([0.5, 1.0, 4.0]),
    st.sampled_from([0.5, 2.0, 16.0]),
    st.lists(st.tuples(EIGHTHS, st.integers(-40, 80).map(lambda n: n / 8)), max_size=40),
)
def test_the_balance_is_what_all_charges_leave(per_s: float, capacity: float, steps: list[tuple[float, float]]) -> None:
    bucket, now, charges = Bucket(per_s, capacity, 0.0), 0.0, []
    for wait_s, amount in steps:
        now += wait_s
        bucket.charge(amount, now)
        charges.append((now, amount))
        assert bucket.balance(now) == balance(charges, per_s, capacity, now)
        assert bucket.full(now) == (bucket.balance(now) == capacity)
        wait_s = bucket.when(now)
        assert (wait_s == 0) == (bucket.balance(now) > 0 or bucket.balance(now) == 0)
        assert wait_s == 0 or balance(charges, per_s, capacity, now + wait_s) == 0
        assert balance(charges, per_s, capacity, now + wait_s + 0.125) > 0


@pytest.mark.mission("B6")
@given(
    st.sampled_from([0.5, 1.0, 4.0]),
    st.sampled_from([0.5, 2.0, 16.0]),
    st.lists(st.tuples(EIGHTHS, EIGHTHS), min_size=1, max_size=40),
)
def test_whoever_finds_something_may_go_and_no_window_has_more_than_one_charge_too_many(
    per_s: float, capacity: float, steps: list[tuple[float, float]]
) -> None:
    bucket, now, taken = Bucket(per_s, capacity, 0.0), 0.0, []
    for wait_s, amount in steps:
        now += wait_s
        if bucket.balance(now) > 0:
            bucket.charge(amount, now)
            taken.append((now, amount))
    for first, (begin_s, _) in enumerate(taken):
        total = 0.0
        for end_s, amount in taken[first:]:
            assert total < capacity + per_s * (end_s - begin_s)
            total += amount


def test_nobody_is_too_big_to_ever_go() -> None:
    bucket = Bucket(1.0, 2.0, 0.0)
    bucket.charge(100.0, 0.0)
    assert bucket.when(0.0) == 98.0
    assert bucket.balance(98.5) == 0.5
