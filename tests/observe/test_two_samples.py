"""The two-sample test has its known values and its stated rate of false alarms."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.observe.two_samples import two_samples

VALUES = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=30)


@given(VALUES, VALUES)
def test_the_distance_is_the_largest_between_two_distribution_functions(
    first: list[float], second: list[float]
) -> None:
    def share(values: list[float], x: float) -> float:
        return sum(value <= x for value in values) / len(values)

    naive = max(abs(share(first, x) - share(second, x)) for x in [*first, *second])
    assert two_samples(first, second).distance == pytest.approx(naive)
    assert two_samples(second, first).distance == pytest.approx(naive)


def test_the_critical_value_is_smirnovs() -> None:
    found = two_samples([0.0] * 300, [1.0] * 600)
    assert found.distance == 1.0
    assert found.critical == pytest.approx(sqrt(log(200) / 2) * sqrt(900 / 180_000))
    assert found.critical == pytest.approx(1.628 * sqrt(1 / 300 + 1 / 600), rel=1e-3)
    assert not found.agree


def test_ratios_are_those_of_mean_and_quantiles() -> None:
    values = np.arange(1.0, 101.0)
    found = two_samples((2 * values).tolist(), values.tolist())
    assert found.mean_ratio == pytest.approx(2.0)
    assert found.ratios == pytest.approx((2.0, 2.0, 2.0))
    assert two_samples([1.0], [0.0]).mean_ratio is None


def test_false_alarms_are_as_rare_as_stated_and_a_shift_is_seen() -> None:
    """2,000 pairs of 300 values at α = 5 %: 100 ± 4 σ alarms, or somewhat fewer, as the asymptotic value is patient."""
    stream = np.random.default_rng(0)
    pairs = [stream.exponential(size=(2, 300)) for _ in range(2_000)]
    alarms = sum(not two_samples(first.tolist(), second.tolist(), 0.05).agree for first, second in pairs)
    assert 60 <= alarms <= 140
    seen = sum(not two_samples((1.6 * a).tolist(), b.tolist()).agree for a, b in pairs[:200])
    assert seen > 100, "a stretch by 60 % is seen in most cases at 1 %"


def test_a_comparison_with_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="samples of 2 and 0 values"):
        two_samples([1.0, 2.0], [])
