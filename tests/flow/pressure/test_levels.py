"""Levels: up at once, down by steps and only in time, and never because nothing is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.domain.pressure import PressureLevel, Signal
from vicinal.flow.pressure.levels import Levels
from vicinal.flow.pressure.thresholds import SIGNALS, THRESHOLDS, called_for

DWELL_S = 5.0


def one() -> Levels:
    levels = Levels(DWELL_S)
    levels.resize(1)
    return levels


def look(levels: Levels, calls: int, keeps: int, now: float, unknown: bool = False) -> int:
    ranks = (np.array([rank], dtype=np.int8) for rank in (calls, keeps))
    levels.update(*ranks, np.array([unknown]), now)
    return int(levels.rank[0])


@pytest.mark.mission("B7")
def test_a_level_rises_at_once_and_falls_by_steps_when_nothing_has_kept_it_up_for_long() -> None:
    levels = one()
    assert look(levels, 0, 0, 0.0) == 0
    assert look(levels, 2, 2, 1.0) == 2
    assert look(levels, 0, 2, 3.0) == 2, "between the thresholds"
    assert look(levels, 0, 1, 7.9) == 2
    assert look(levels, 0, 1, 8.0) == 1
    assert look(levels, 0, 0, 12.0) == 1
    assert look(levels, 0, 0, 13.0) == 0
    assert levels.since_s[0] == 13.0


@pytest.mark.mission("C5")
def test_while_nothing_is_known_a_level_stays() -> None:
    levels = one()
    look(levels, 2, 2, 0.0)
    for now in (10.0, 100.0):
        assert look(levels, 0, 0, now, unknown=True) == 2
    assert look(levels, 0, 0, 101.0) == 2, "it is normal for a moment only"
    assert look(levels, 0, 0, 105.0) == 1


def test_a_newcomer_is_under_no_pressure() -> None:
    levels = Levels(DWELL_S)
    levels.resize(2)
    levels.update(np.array([2, 1], dtype=np.int8), np.array([2, 1], dtype=np.int8), np.zeros(2, dtype=bool), 0.0)
    levels.forget(0)
    levels.resize(3)
    assert levels.rank.tolist() == [0, 1, 0]
    assert levels.since_s.tolist() == [-np.inf, 0.0, -np.inf]


noise = st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 20.0), st.booleans()), max_size=120)


@pytest.mark.mission("B7")
@given(noise=noise)
def test_whatever_a_signal_does_a_level_falls_once_per_dwell_and_never_soon_after_it_rose(noise: list) -> None:
    """So it cannot go up and down more often than once per dwell."""
    levels, now, rank = one(), 0.0, 0
    last_change_s, falls_s = -np.inf, [-np.inf]
    for after_s, value, unknown in noise:
        now += after_s
        values = np.full((len(SIGNALS), 1), np.nan)
        values[SIGNALS.index(Signal.QUEUE)] = np.nan if unknown else value
        calls, keeps = (ranks.max(axis=0) for ranks in called_for(values))
        rose, fell = levels.update(calls, keeps, np.array([unknown]), now)
        after = int(levels.rank[0])
        if not unknown:
            assert after >= calls[0], "what is called for is there at once"
        if after < rank:
            assert after == rank - 1
            assert now - last_change_s >= DWELL_S
            assert now - falls_s[-1] >= DWELL_S
            assert not unknown
            assert keeps[0] < rank
            falls_s.append(now)
        assert (len(rose), len(fell)) == (int(after > rank), int(after < rank))
        if after != rank:
            last_change_s = now
        rank = after


@pytest.mark.parametrize("signal", list(Signal))
def test_each_signal_has_thresholds_that_leave_room_between_up_and_down(signal: Signal) -> None:
    thresholds = THRESHOLDS[signal]
    values = np.full((len(SIGNALS), 5), np.nan)
    (soft, soft_until), (hard, hard_until) = thresholds.soft, thresholds.hard
    assert soft_until < soft < hard
    row = SIGNALS.index(signal)
    values[row] = [soft_until * 0.99, soft_until, soft, hard_until, hard]
    calls, keeps = (ranks.max(axis=0).tolist() for ranks in called_for(values))
    if np.isinf(hard):
        assert (calls[:3], keeps[:3]) == ([0, 0, 1], [0, 1, 1])
        assert called_for(np.full((len(SIGNALS), 1), 1e300))[0][row] == 1
    else:
        assert soft_until < hard_until < hard
        assert (calls, keeps[:3], keeps[4]) == ([0, 0, 1, int(hard_until >= soft), 2], [0, 1, 1], 2)
        assert keeps[3] == 2


def test_an_unknown_signal_calls_for_nothing() -> None:
    calls, keeps = called_for(np.full((len(SIGNALS), 3), np.nan))
    assert not calls.any()
    assert not keeps.any()


def test_levels_are_in_order() -> None:
    assert [level.rank for level in (PressureLevel.NORMAL, PressureLevel.SOFT, PressureLevel.HARD)] == [0, 1, 2]
