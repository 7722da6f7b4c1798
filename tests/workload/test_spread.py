"""Equal stamps are moved apart within their step."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.workload.spread import spread_uniformly


@settings(deadline=None)
@given(st.lists(st.integers(0, 40).map(lambda step: step * 3.0)).map(sorted))
def test_spreading_keeps_order_and_stays_within_a_step(stamps_s: list[float]) -> None:
    spread_s = spread_uniformly(stamps_s)
    assert len(spread_s) == len(stamps_s)
    distinct = sorted(set(stamps_s))
    following = dict(pairwise(distinct))
    for before, after in zip(stamps_s, spread_s, strict=True):
        assert before <= after
        assert after < following.get(before, float("inf"))
    assert spread_s == sorted(spread_s)
    if len(set(stamps_s)) > 1:
        assert len(set(spread_s)) == len(spread_s)


def test_a_pause_stays_a_pause() -> None:
    assert spread_uniformly([0.0, 3.0, 6.0, 6.0, 600.0]) == [0.0, 3.0, 6.0, 7.5, 600.0]
    assert spread_uniformly([]) == []
    assert spread_uniformly([4.0, 4.0]) == [4.0, 4.0]
