"""Limits: engines that become slow and fast again, bounds whatever is seen, and words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flow.limits.engine import SlowEngine
from vicinal.contracts.limit import Limit
from vicinal.contracts.words import UnknownWordError
from vicinal.flow.limits.registry import LIMITS, limit

LEARNING = ("gradient", "aimd")


def made(text: str, slots: int = 1) -> Limit:
    one = limit(text)
    one.resize(slots)
    return one


@pytest.mark.mission("B7")
@pytest.mark.parametrize(("name", "rounds"), [("gradient", 2), ("gradient:start=2", 2), ("aimd", 3)])
def test_an_engine_that_becomes_twice_as_slow_gets_half_and_has_it_back_when_it_is_cured(
    name: str, rounds: int
) -> None:
    """A round is as many answers as the limit leaves room for: those that were under way when it changed come first."""
    engine = SlowEngine(made(name))
    good_s = engine.answers(200)[-1]
    in_a_round = round(good_s / engine.compute_s)
    assert good_s > 0.95
    engine.slowness = 2.0
    assert engine.answers(rounds * in_a_round)[-1] <= 0.55 * good_s
    assert engine.answers(100)[-1] >= 0.25
    engine.slowness = 1.0
    assert engine.answers((rounds + 1) * in_a_round)[-1] >= 0.95 * good_s


@pytest.mark.mission("B7")
def test_with_a_gradient_work_waits_as_long_in_a_slow_engine_as_in_a_fast_one() -> None:
    """With a fixed limit it waits as much longer as the engine is slower."""
    waits_s = {}
    for name in ("fixed", "gradient"):
        for slowness in (1.0, 3.0):
            engine = SlowEngine(made(name), slowness=slowness)
            engine.answers(200)
            waits_s[name, slowness] = float(np.mean(engine.waited_s[100:]))
    assert waits_s["gradient", 3.0] == pytest.approx(waits_s["gradient", 1.0], rel=0.25)
    assert waits_s["fixed", 3.0] == pytest.approx(3 * waits_s["fixed", 1.0], rel=0.05)


def test_aimd_settles_where_answers_are_about_as_late_as_its_slack() -> None:
    engine = SlowEngine(made("aimd:slack=0.5+least=0.05"), slowness=2.0)
    late_s = np.array(engine.answers(300)[150:])  # half of what an answer takes is lateness
    assert 0.3 <= late_s.mean() <= 0.5
    assert late_s.min() < late_s.max()


@pytest.mark.parametrize("name", LEARNING)
def test_a_faster_engine_may_have_more(name: str) -> None:
    engine = SlowEngine(made(name), slowness=0.5)
    assert engine.answers(100)[-1] > 1.5


@pytest.mark.parametrize("name", LEARNING)
def test_what_is_not_used_does_not_grow(name: str) -> None:
    one = made(name)
    for n in range(50):
        one.observe(0, 0.1, 0.5, 0.2, float(n))
    assert one.limit_s[0] == 1.0
    for n in range(50, 60):
        one.observe(0, 0.1, 0.5, 3.0, float(n))
    low_s = one.limit_s[0]
    assert low_s < 0.7, "it shrinks: a queue that is short and slow is slow"
    one.observe(0, 0.1, 0.5, 0.5, 60.0)
    assert one.limit_s[0] == low_s


@pytest.mark.parametrize("name", LEARNING)
def test_failures_shrink_it(name: str) -> None:
    one = made(name, slots=2)
    for n in range(20):
        before_s = one.limit_s[0]
        one.failed(0, 0.5, float(n))
        assert one.limit_s[0] <= before_s
    assert one.limit_s.tolist() == [pytest.approx(0.25, rel=0.1), 1.0]


def test_what_was_under_way_at_a_cut_cuts_no_second_time() -> None:
    one = made("aimd")
    for after_s in (2.0, 2.1, 2.2):
        one.observe(0, 0.9, 1.0, after_s, 10.0 + after_s)
    assert one.limit_s[0] == pytest.approx(0.7)
    one.observe(0, 0.9, 1.0, 2.0, 14.5)
    assert one.limit_s[0] == pytest.approx(0.49)


@pytest.mark.parametrize("name", LIMITS)
def test_a_newcomer_begins_anew(name: str) -> None:
    one = made(name, slots=2)
    for slot in (0, 1):
        one.failed(slot, 1.0, 5.0)
        one.observe(slot, 1.0, 1.0, 5.0, 12.0)
    kept_s = one.limit_s[1]
    one.forget(0)
    one.resize(3)
    assert one.limit_s.tolist() == [1.0, kept_s, 1.0]
    one.failed(0, 1.0, 13.0)
    one.observe(2, 0.0, 1.0, 5.0, 13.0)


seconds = st.floats(-1.0, 1e6)
seen = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), seconds, seconds, seconds, st.floats(0.0, 1e6)), max_size=60
)


@pytest.mark.mission("B7")
@given(seen=seen, name=st.sampled_from(["gradient", "gradient:gain=1+slack=0.001", "aimd", "aimd:cut=0.01+step=9"]))
def test_a_limit_stays_within_its_bounds_whatever_is_seen_and_only_what_is_used_grows(seen: list, name: str) -> None:
    one = made(name, slots=3)
    now = 0.0
    for failed, slot, wait_s, predicted_s, seen_s, after_s in seen:
        now += after_s
        before_s = one.limit_s.copy()
        if failed:
            one.failed(slot, seen_s, now)
        else:
            one.observe(slot, wait_s, predicted_s, seen_s, now)
        assert (one.limit_s >= 0.25).all()
        assert (one.limit_s <= 4.0).all()
        others = np.arange(3) != slot
        assert (one.limit_s[others] == before_s[others]).all()
        if failed or wait_s < 0.5 * before_s[slot]:
            assert one.limit_s[slot] <= before_s[slot]


@given(seen=seen)
def test_fixed_is_fixed(seen: list) -> None:
    one = made("fixed:seconds=0.5", slots=3)
    for failed, slot, wait_s, predicted_s, seen_s, after_s in seen:
        if failed:
            one.failed(slot, seen_s, after_s)
        else:
            one.observe(slot, wait_s, predicted_s, seen_s, after_s)
    assert one.limit_s.tolist() == [0.5] * 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gradiant", "unknown limit 'gradiant'. Did you mean 'gradient'? Known: fixed, gradient, aimd"),
        ("fixed:seconds=0", "parameter 'seconds' of limit 'fixed': Expected `float` > 0.0"),
        ("fixed:second=1", "limit 'fixed' has no parameter 'second=1'. Did you mean 'seconds'?"),
        ("fixed:limit_s=1", "has no parameter 'limit_s=1'"),
        ("gradient:start=1+least=2", "limit 'gradient:start=1+least=2': least <= start <= most is not so for 2, 1, 4"),
        ("aimd:most=0.5", "least <= start <= most"),
        ("aimd:cut=1", "parameter 'cut' of limit 'aimd': Expected `float` < 1.0"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(UnknownWordError) as caught:
        limit(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", LIMITS)
def test_two_schedulers_never_share_one(name: str) -> None:
    assert limit(name) is not limit(name)
