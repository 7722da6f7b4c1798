"""The factor of a class of path: it follows what transfers take, and forgets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.cost.pathspeed import PathSpeeds
from vicinal.topology.graph import Level

pytestmark = pytest.mark.mission("C2", "A8")


def test_it_starts_as_fast_as_the_links_promise() -> None:
    assert PathSpeeds().factors(0.0).tolist() == [1.0] * len(Level)


def test_a_path_that_fell_back_to_tcp_alarms_within_a_few_transfers_and_once() -> None:
    """50 times slower: the price rises with each transfer, the alarm rings on the way and not again."""
    speeds = PathSpeeds()
    factors, alarms = [], []
    for n in range(8):
        alarms.append(speeds.observe(Level.POD, 0.1, 5.0, now=n * 1.0))
        factors.append(speeds.factors(n * 1.0)[Level.POD])
    assert factors == sorted(factors)
    assert factors[-1] > 25
    rung = [n for n, alarm in enumerate(alarms) if alarm is not None]
    assert len(rung) == 1
    assert rung[0] < 4
    assert alarms[rung[0]] == pytest.approx(factors[rung[0]])


def test_levels_do_not_mix() -> None:
    speeds = PathSpeeds()
    speeds.observe(Level.POD, 0.1, 5.0, now=0.0)
    factors = speeds.factors(0.0)
    assert factors[Level.POD] > 1.0
    assert np.delete(factors, Level.POD).tolist() == [1.0] * (len(Level) - 1)


def test_it_decays_to_one_so_that_the_path_is_tried_again() -> None:
    speeds = PathSpeeds(horizon_s=120.0)
    for n in range(10):
        speeds.observe(Level.LEAF, 0.1, 5.0, now=n * 1.0)
    factors = [speeds.factors(9.0 + after_s)[Level.LEAF] for after_s in (0.0, 60.0, 120.0, 600.0, 6000.0)]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] > 20
    assert np.log(factors[2]) == pytest.approx(np.log(factors[0]) / np.e)
    assert factors[-1] == pytest.approx(1.0)


def test_it_alarms_again_when_the_path_fell_back_again() -> None:
    speeds = PathSpeeds()
    first = [speeds.observe(Level.POD, 0.1, 5.0, now=n * 1.0) for n in range(5)]
    again = [speeds.observe(Level.POD, 0.1, 5.0, now=5000.0 + n) for n in range(5)]
    assert sum(alarm is not None for alarm in first) == sum(alarm is not None for alarm in again) == 1


def test_small_transfers_teach_nothing() -> None:
    speeds = PathSpeeds(least_s=0.02)
    assert speeds.observe(Level.POD, 0.0199, 10.0, now=1.0) is None
    assert speeds.factors(1.0).tolist() == [1.0] * len(Level)
    speeds.observe(Level.POD, 0.02, 10.0, now=1.0)
    assert speeds.factors(1.0)[Level.POD] > 1.0


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.floats(0.02, 10.0), st.floats(0.0, 1e6), st.floats(0.0, 100.0)), max_size=30))
def test_it_stays_within_what_one_ratio_may_say(seen: list[tuple[float, float, float]]) -> None:
    speeds, now = PathSpeeds(), 0.0
    for predicted_s, seen_s, after_s in seen:
        now += after_s
        speeds.observe(Level.HOST, predicted_s, seen_s, now)
        assert 0.25 - 1e-9 <= speeds.factors(now)[Level.HOST] <= 64.0 + 1e-9


def test_it_converges_on_the_truth() -> None:
    speeds = PathSpeeds()
    for n in range(40):
        speeds.observe(Level.ACROSS, 0.5, 1.0, now=n * 0.1)
    assert speeds.factors(4.0)[Level.ACROSS] == pytest.approx(2.0, rel=0.01)
