"""Shares of first tokens that missed their objective, and what others measure: known while it is new, then unknown."""

from math import isnan

import numpy as np
import pytest

from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.pressure import Signal
from vicinal.flow.pressure.measured import Measurements
from vicinal.flow.pressure.missed import MissedShares

M = ModelId("m")


def shares(slots: int = 2) -> MissedShares:
    made = MissedShares()
    made.resize(slots)
    return made


def test_a_few_tell_nothing_then_the_last_twenty_or_so_count() -> None:
    made = shares()
    for n in range(9):
        made.add(M, 0, True, float(n))
    assert isnan(made.of_model(M, 9.0))
    made.add(M, 0, False, 9.0)
    assert made.of_model(M, 9.0) == pytest.approx(0.9)
    assert made.by_slot(9.0)[0] == pytest.approx(0.9)
    assert isnan(made.by_slot(9.0)[1])
    for _ in range(100):
        made.add(M, 1, False, 10.0)
    assert made.of_model(M, 10.0) < 0.01
    assert made.by_slot(10.0).tolist() == [pytest.approx(0.9), 0.0]


def test_a_share_that_nobody_adds_to_becomes_unknown_and_begins_anew() -> None:
    made = shares()
    for _ in range(20):
        made.add(M, 0, True, 0.0)
    assert made.of_model(M, 30.0) == 1.0
    assert isnan(made.of_model(M, 30.1))
    assert np.isnan(made.by_slot(30.1)).all()
    for _ in range(10):
        made.add(M, 0, False, 60.0)
    assert (made.of_model(M, 60.0), made.by_slot(60.0)[0]) == (0.0, 0.0)


def test_who_was_refused_counts_for_the_model_and_for_nobody_else() -> None:
    made = shares()
    for _ in range(10):
        made.add(M, None, True, 0.0)
    assert made.of_model(M, 0.0) == 1.0
    assert np.isnan(made.by_slot(0.0)).all()
    assert isnan(made.of_model(ModelId("other"), 0.0))


def test_a_newcomer_has_missed_nothing() -> None:
    made = shares()
    for _ in range(10):
        made.add(M, 0, True, 0.0)
    made.forget(0)
    made.resize(3)
    assert np.isnan(made.by_slot(0.0)).all()
    for _ in range(10):
        made.add(M, 0, False, 0.0)
    assert made.by_slot(0.0)[0] == 0.0


def test_what_was_measured_is_known_for_a_while_and_may_be_taken_back() -> None:
    made, slots, p = Measurements(), {EndpointId("p"): 1}, EndpointId("p")
    made.take(Signal.REMOTE_READ, None, 2.0, 0.0)
    made.take(Signal.REMOTE_READ, p, 3.0, 0.0)
    made.take(Signal.REMOTE_READ, EndpointId("gone"), 4.0, 0.0)
    made.take(Signal.COPY_QUEUE, p, 5.0, 0.0)

    def by_slot(now: float) -> list[float]:
        values = np.full(2, np.nan)
        made.by_slot(Signal.REMOTE_READ, slots, values, now)
        return values.tolist()

    assert made.of_all(Signal.REMOTE_READ, 30.0) == 2.0
    assert by_slot(30.0)[1] == 3.0
    assert isnan(by_slot(30.0)[0])
    assert isnan(made.of_all(Signal.REMOTE_READ, 31.0))
    assert isnan(by_slot(31.0)[1])
    made.take(Signal.REMOTE_READ, p, 0.0, 40.0)
    assert by_slot(40.0)[1] == 0.0
    made.take(Signal.REMOTE_READ, p, None, 41.0)
    assert isnan(by_slot(41.0)[1])
    made.take(Signal.REMOTE_READ, p, 1.0, 42.0)
    made.forget(p)
    assert isnan(by_slot(42.0)[1])
