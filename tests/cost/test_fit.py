"""A stack of fits prices a fleet as each fit prices its endpoint."""

import numpy as np
import pytest

from vicinal.enginemodel.fit import stack
from vicinal.enginemodel.profiles import NAMES, PROFILES


@pytest.mark.mission("C1")
def test_stack_equals_scalar_fits() -> None:
    rng = np.random.default_rng(0)
    fits = [PROFILES[str(name)] for name in rng.choice(NAMES, 40)]
    cached = rng.integers(0, 5000, 40).astype(float)
    sequences, context = rng.integers(1, 200, 40).astype(float), rng.integers(0, 500_000, 40).astype(float)
    fleet = stack(fits)
    each = list(zip(fits, cached.tolist(), sequences.tolist(), context.tolist(), strict=True))
    assert fleet.prefill_s(5000.0, cached).tolist() == [fit.prefill_s(5000.0, c) for fit, c, _, _ in each]
    assert fleet.step_s(sequences, context).tolist() == [fit.step_s(s, c) for fit, _, s, c in each]


def test_an_empty_stack_prices_nobody() -> None:
    nobody = np.zeros(0)
    assert stack([]).prefill_s(100.0, nobody).shape == (0,)
    assert stack([]).step_s(nobody, nobody).shape == (0,)


def test_the_formulas() -> None:
    """a + b (n - p) + c (n - p)(n + p) / 2, by hand."""
    fit = PROFILES["llama-3.1-70b-h100-tp8-vllm"]
    assert fit.prefill_s(1000, 600) == pytest.approx(7.84635e-3 + 37.5538e-6 * 400 + 0.510472e-9 * 400 * 800)
    assert fit.step_s(3, 5000) == pytest.approx(10.0168e-3 + 23.2551e-6 * 3 + 13.3788e-9 * 5000)
