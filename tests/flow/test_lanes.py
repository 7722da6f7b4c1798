"""Long is relative to what a fleet usually does."""

import pytest

from vicinal.domain.lane import Lane
from vicinal.flow.lanes import LaneRule

RULE = LaneRule(long_prefill_s=2.0, long_factor=4.0, long_share=0.5)


@pytest.mark.mission("B4")
@pytest.mark.parametrize(
    ("prefill_s", "mean_s", "lane"),
    [
        (1.9, 0.0, Lane.SHORT),
        (2.0, 0.0, Lane.LONG),
        (2.0, 0.5, Lane.LONG),
        (7.9, 2.0, Lane.SHORT),
        (8.0, 2.0, Lane.LONG),
    ],
)
def test_long_is_a_floor_and_a_multiple_of_the_usual(prefill_s: float, mean_s: float, lane: Lane) -> None:
    assert RULE.of(prefill_s, mean_s) is lane


def test_a_share_of_one_is_no_lane_at_all() -> None:
    assert LaneRule(long_share=1.0).of(1e9, 0.0) is Lane.SHORT


@pytest.mark.parametrize(("endpoints", "most"), [(1, 1), (2, 1), (4, 2), (5, 2), (0, 1)])
def test_at_least_one_long_prefill_may_run(endpoints: int, most: int) -> None:
    assert RULE.long_max(endpoints) == most
