"""Every case of the table in docs/simulator.md: theory's value is in the interval, and the interval is narrow.

A control that tells each request's time must agree with the simulator on every one of them.
"""

import pytest

from tests.theory.estimate import SPREAD
from tests.theory.table import CASES

ROUNDING = 1e-6
"""In seconds, or requests."""


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_simulator_gives_what_theory_says(case):
    row = case.measure()
    assert row.apart < ROUNDING
    assert SPREAD * row.simulated.error < case.sharp * row.theory
    assert row.simulated.agrees_with(row.theory, row.theory_error)
