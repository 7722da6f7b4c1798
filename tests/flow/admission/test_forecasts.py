"""Forecasts by hand, and the margin that makes nearly all come true."""

import numpy as np
import pytest

from vicinal.flow.admission.current import current
from vicinal.flow.admission.margin import Margin
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


def test_nearly_all_come_sooner_than_a_forecast_with_its_margin() -> None:
    stream = np.random.default_rng(0)
    margin = Margin()
    late = 0
    for n in range(2_000):
        seen_s = 1.2 + float(stream.normal(0.0, 0.2))
        late += n > 100 and seen_s > 1.0 + margin.seconds
        margin.observe(1.0, seen_s)
    assert late < 0.01 * 1_900
    assert margin.seconds < 1.2, "and it is no wider than it has to be"


def test_forecasts_that_were_too_late_make_no_margin() -> None:
    margin = Margin()
    for _ in range(10):
        margin.observe(2.0, 1.0)
    assert margin.seconds == 0.0
