"""Whole servers under a closed loop: hand calculations, and what is made of the rows of the silicon sample."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fidelity.shared import SHARED, measured
from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.spec import EngineSpec
from vicinal.sim.fidelity.closed_loop import Load, aggregated, disaggregated
from vicinal.sim.fidelity.report import SILICON
from vicinal.sim.fidelity.servers import Source, compare, spec_of, why_not
from vicinal.sim.fidelity.silicon import Shape, SiliconRow, distinct, read_rows

FIT = Fit("unit", 1.0, 0.01, 0.0001, 0.1, 0.02, 0.001, "made up for this test")
SPEC = EngineSpec(FIT, 1000, 4, batched_tokens_max=1000)
ONE = Load(clients=1, requests=3, input_tokens=10, output_tokens=5, shortest=1.0)
ROW = SiliconRow(
    "r", "Qwen/Qwen3-32B", "h100_sxm", "vllm", "bf16", "", Shape(1, 2), None, None, 1024, 128, 4, 0.1, 0.02
)  # fmt: skip


def test_one_client_is_served_as_the_fit_says() -> None:
    means = aggregated(SPEC, ONE)
    assert means.ttft_s == pytest.approx(FIT.prefill_s(10.0, 0.0))
    assert means.first_ttft_s == pytest.approx(FIT.prefill_s(10.0, 0.0))
    assert means.tpot_s == pytest.approx(FIT.step_s(1.0, 12.5))


def test_a_handed_off_answer_waits_for_prefill_transfer_and_one_step() -> None:
    means = disaggregated(SPEC, SPEC, 0.25, ONE)
    assert means.ttft_s == pytest.approx(FIT.prefill_s(10.0, 0.0) + 10 * 0.25 + FIT.step_s(1.0, 10.0))
    assert means.tpot_s == pytest.approx(FIT.step_s(1.0, 12.5))


def test_clients_that_begin_at_once_queue_in_the_first_round() -> None:
    load = Load(clients=4, requests=40, input_tokens=1000, output_tokens=60, shortest=0.5)
    means = aggregated(replace(SPEC, blocks=4000), load)
    assert means.first_ttft_s > means.ttft_s > FIT.prefill_s(500.0, 0.0)


def test_a_row_is_matched_to_a_profile_by_model_system_backend_and_tensor_parallelism() -> None:
    assert ROW.profiles() == ["qwen3-32b-h100-tp2-vllm"]
    assert why_not(ROW) == ""
    assert why_not(replace(ROW, backend="trtllm")) == "no profile"
    assert why_not(replace(ROW, parallel="data 8")) == "split by more than tensor parallelism"
    assert why_not(replace(ROW, clients=None)) == "number of clients not given"
    assert why_not(replace(ROW, clients=4096)) == "more than 128 clients"
    with pytest.raises(ValueError, match="r: no profile"):
        compare(replace(ROW, backend="trtllm"), Source.GRID)
    split = replace(ROW, serving=None, prefill=Shape(1, 2), decode=Shape(1, 8))
    assert (split.mode, split.profiles()) == ("disaggregated", None)


def test_memory_is_what_the_weights_leave() -> None:
    """0.9 x 80 GiB less 32.8 GB of 16-bit weights per rank and 4 GiB, over half of 262,144 bytes per token."""
    spec = spec_of(ROW, "qwen3-32b-h100-tp2-vllm", Shape(1, 2), Source.FIT)
    assert spec.tokens == pytest.approx((0.9 * 80 * 2**30 - 32.8e9 - 4 * 2**30) / 131_072, rel=1e-4)
    halved = spec_of(replace(ROW, precision="fp8"), "qwen3-32b-h100-tp2-vllm", Shape(1, 2), Source.FIT)
    assert halved.tokens == pytest.approx(spec.tokens + 16.4e9 / 131_072, rel=1e-4)


def test_the_same_figures_of_the_same_server_count_once() -> None:
    other = replace(ROW, id="other", ttft_s=0.2)
    assert distinct([ROW, replace(ROW, id="again"), other]) == [replace(ROW, id="again"), other]


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("model_path,mode,silicon_data_source\nx,agg,\nQwen/Qwen3-32B,agg,\n")
    with pytest.raises(ValueError, match=r"rows\.csv, line 3: 'pp_size'"):
        read_rows(path)


@measured
def test_servers_whose_precision_is_near_are_predicted_within_a_third() -> None:
    """Llama-3.1-70B on 8 H100 under vLLM, eight clients. The profile is of 16-bit weights, the servers had FP8."""
    rows = [
        row
        for row in distinct(read_rows(SHARED / SILICON))
        if row.profiles() == ["llama-3.1-70b-h100-tp8-vllm"] and row.clients == 8
    ]
    assert len(rows) == 3
    for row in rows:
        compared = compare(row, Source.GRID)
        assert 0.0 < compared.ttft_error < 0.35
        assert 0.0 < compared.tpot_error < 0.20
