"""Forecasts by hand, and the margin that makes nearly all come true."""

import numpy as np
import pytest

from vicinal.flow.admission.current import current
from vicinal.flow.admission.margin import LATE_SHARE, SHARE_MAX, Margin
from vicinal.flow.admission.outlook import Outlook
from vicinal.flow.admission.predicted import predicted

OUTLOOK = Outlook(
    now_s=100.0,
    engine_wait_s=0.5,
    held_s=9.0,
    ahead_s=3.0,
    prefill_s=1.5,
    decode_began_s=(94.0, 96.0, 99.0),
    decode_s=10.0,
    on_the_way=4,
    ahead=6,
    strangers=2.0,
    tpot_s=lambda sequences: sequences / 1000,
)


@pytest.mark.mission("B7")
def test_the_present_counts_all_that_waits_and_only_those_that_decode_now() -> None:
    seen = current(OUTLOOK)
    assert seen.ttft_s == 0.5 + 9.0 + 1.5
    assert seen.tpot_s == (3 + 2 + 1) / 1000


@pytest.mark.mission("B7")
def test_the_future_counts_what_goes_first_and_who_will_be_there() -> None:
    """Its prefill ends at 105; who began before 95 is gone by then, and 4 + 6 have come."""
    seen = predicted(OUTLOOK)
    assert seen.ttft_s == 0.5 + 3.0 + 1.5
    assert seen.tpot_s == pytest.approx((2 + 4 + 6 + 2 + 1) / 1000)


@pytest.mark.mission("B7")
@pytest.mark.parametrize("deviation", [0.05, 0.2])
def test_the_margin_becomes_what_lets_one_in_twenty_be_late(deviation: float) -> None:
    """Everybody is let in at the edge: the forecast says that all of the patience but the margin goes by."""
    stream = np.random.default_rng(0)
    margin = Margin()
    late = 0
    for n in range(10_000):
        came_after = (1.0 - margin.share) * (1.0 + float(stream.normal(0.1, deviation)))
        late += n >= 1_000 and came_after > 1.0
        margin.observe(late=came_after > 1.0)
    assert late / 9_000 == pytest.approx(LATE_SHARE, abs=0.02)


def test_who_is_always_in_time_needs_no_margin_and_one_that_never_is_leaves_some_room() -> None:
    margin = Margin(0.5)
    for _ in range(1_000):
        margin.observe(late=False)
    assert margin.share == 0.0
    for _ in range(1_000):
        margin.observe(late=True)
    assert margin.share == SHARE_MAX, "some are let in, or nobody would ever be seen to be in time again"
