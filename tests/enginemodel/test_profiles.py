"""The built-in profiles say what their source says."""

import pytest

from vicinal.enginemodel.profiles import KV_BYTES_PER_TOKEN, NAMES, PROFILES, UnknownProfileError, profile


def test_there_are_thirteen_profiles_with_distinct_names() -> None:
    assert len(NAMES) == len(set(NAMES)) == len(PROFILES) == len(KV_BYTES_PER_TOKEN) == 13


def test_llama_70b_prefill_matches_the_measured_grid() -> None:
    """The grid has 344 ms for 8,192 tokens; the worst error of this row is 8.1 %."""
    fit = profile("llama-3.1-70b-h100-tp8-vllm")
    assert fit.prefill_s(8192.0, 0.0) == pytest.approx(0.344, rel=0.081)


def test_the_formula_is_the_one_of_the_source() -> None:
    fit = profile("llama-3.1-8b-a100-tp1-vllm")
    n, p = 6000.0, 1500.0
    assert fit.prefill_s(n, p) == pytest.approx(
        7.665651264026526e-3 + 54.4919696338549e-6 * (n - p) + 2.9891706491448264e-9 * (n - p) * (n + p) / 2, rel=1e-5
    )
    assert fit.step_s(7.0, 41_000.0) == pytest.approx(
        11.5085370195045e-3 + 29.814192698983813e-6 * 7 + 85.48695287961436e-9 * 41_000, rel=1e-5
    )


def test_kv_size_of_the_default_model() -> None:
    assert KV_BYTES_PER_TOKEN["llama-3.1-70b-h100-tp8-vllm"] == 2 * 80 * 8 * 128 * 2


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UnknownProfileError, match="qwen3-32b-h100-tp2-vllm") as raised:
        profile("Qwen3-32B-H100-tp4-vllm")
    assert raised.value.nearest
    with pytest.raises(ValueError, match="known are"):
        profile("!")
