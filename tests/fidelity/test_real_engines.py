"""The engine model, fitted to the first half of a real vLLM's requests, predicts the second half."""

import pytest

from tests.fidelity.shared import SHARED, measured
from vicinal.sim.fidelity.halves import Split, predict
from vicinal.sim.fidelity.measured import read_prompts, read_run
from vicinal.sim.fidelity.report import PROMPTS, RUNS

RUN_NAMES = (
    "RTX4090/Llama-3.1-8B",
    "RTXPRO6000/Llama-3.1-8B",
    "RTXPRO6000/Qwen3-32B",
    "RTXPRO6000/Qwen3-30B-A3B-Instruct-2507",
)


@measured
@pytest.mark.mission("B10", "C2")
@pytest.mark.parametrize("name", RUN_NAMES)
def test_half_of_a_run_predicts_the_other(name: str) -> None:
    """The aim is 10 % of the median request for prefill and TPOT, and 5 % for the mean TTFT."""
    run = read_run(SHARED / RUNS / name / "vllm", name)
    prediction = predict(run, read_prompts(SHARED / PROMPTS), Split.TIME)
    assert prediction.prefill.number == 150
    assert prediction.prefill.median < 0.11
    assert prediction.tpot.median < 0.04
    assert abs(prediction.ttft_error) < 0.03
