"""Equal stamps are moved apart within their step."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.workload.spread import Spread, spread_out


@settings(deadline=None)
@given(
    stamps_s=st.lists(st.integers(0, 40).map(lambda step: step * 3.0)).map(sorted),
    spread=st.sampled_from(Spread),
    seed=st.integers(0, 3),
)
def test_spreading_keeps_order_and_stays_within_a_step(stamps_s: list[float], spread: Spread, seed: int) -> None:
    spread_s = spread_out(stamps_s, spread, seed)
    assert len(spread_s) == len(stamps_s)
    distinct = sorted(set(stamps_s))
    following = dict(pairwise(distinct))
    for before, after in zip(stamps_s, spread_s, strict=True):
        assert before <= after
        assert after < following.get(before, float("inf"))
    assert spread_s == sorted(spread_s)
    if len(distinct) > 1 and spread is Spread.UNIFORM:
        assert len(set(spread_s)) == len(spread_s)


def test_a_pause_stays_a_pause() -> None:
    assert spread_out([0.0, 3.0, 6.0, 6.0, 600.0], Spread.UNIFORM) == [0.0, 3.0, 6.0, 7.5, 600.0]
    assert spread_out([], Spread.UNIFORM) == []
    assert spread_out([4.0, 4.0], Spread.UNIFORM) == [4.0, 4.0]


def test_at_random_a_seed_says_where() -> None:
    one, same, other = (spread_out([0.0] * 50 + [3.0], Spread.RANDOM, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert sum(one[:50]) / 50 == pytest.approx(1.5, abs=0.5)
