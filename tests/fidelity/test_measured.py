"""Reading measured runs: what is in the files, and what is said of files that are not as expected."""

import json
from pathlib import Path
from typing import Any

import pytest

from vicinal.sim.fidelity.contents import name_contents
from vicinal.sim.fidelity.measured import MeasuredRequest, read_run

META = {
    "vllm_version": "0.19.0",
    "engine_kwargs": {
        "model": "m",
        "tensor_parallel_size": 1,
        "data_parallel_size": 1,
        "enable_expert_parallel": False,
        "max_num_seqs": 128,
        "max_num_batched_tokens": 2048,
    },
}


def line(i: int, arrival: float, queued: float, **more: Any) -> dict[str, Any]:
    stamps = {
        "queued_ts": queued,
        "scheduled_ts": queued + 1,
        "first_token_ts": queued + 2,
        "last_token_ts": queued + 5,
    }
    return {"request_id": f"b-{i}", "input_toks": 40, "output_toks": 8, "arrival_time": arrival, **stamps, **more}


def folder(path: Path, lines: list[Any], meta: Any = META) -> Path:
    (path / "meta.json").write_text(json.dumps(meta))
    (path / "requests.jsonl").write_text("\n".join(json.dumps(row) for row in lines))
    return path


def test_a_run_is_sorted_and_on_one_clock(tmp_path: Path) -> None:
    run = read_run(folder(tmp_path, [line(1, 107.0, 57.5), line(0, 100.0, 50.0)]), "x")
    assert [r.position for r in run.requests] == [0, 1]
    assert run.clock_offset_s == 50.0
    assert (run.sequences_max, run.batched_tokens_max, run.blocks, run.async_scheduling) == (128, 2048, None, True)


def test_ranks_that_step_together_are_one_engine_with_all_their_limits(tmp_path: Path) -> None:
    arguments = {**META["engine_kwargs"], "data_parallel_size": 2, "enable_expert_parallel": True}  # type: ignore[dict-item]
    cache = {"num_gpu_blocks": 1000, "block_size": 32}
    run = read_run(folder(tmp_path, [line(0, 0, 0)], {**META, "engine_kwargs": arguments, "kv_cache": cache}), "x")
    assert (run.ranks, run.sequences_max, run.batched_tokens_max) == (2, 256, 4096)
    assert (run.blocks, run.block_tokens) == (2000, 32)
    arguments["enable_expert_parallel"] = False
    with pytest.raises(ValueError, match="2 independent ranks"):
        read_run(folder(tmp_path, [line(0, 0, 0)], {**META, "engine_kwargs": arguments}), "x")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has no request"),
        ([line(0, 0, 0), {"request_id": "b-1"}], "line 2: .*missing required field"),
        ([line(0, 0, 0), line(1, 0, 0, request_id="b")], "line 2: request_id must end in"),
        ([line(0, 0, 0, first_token_ts=-1)], "line 1: the stamps of b-0 are not in order"),
    ],
)
def test_a_file_that_is_not_as_expected_is_named_with_its_line(tmp_path: Path, lines: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_run(folder(tmp_path, lines), "x")


def request(i: int, prompt: int, output: int = 20) -> MeasuredRequest:
    return MeasuredRequest(f"b-{i}", prompt, output, 0.0, 0.0, 0.0, 1.0, 2.0)


def test_shared_prefixes_have_the_same_keys() -> None:
    """b-1 repeats 40 of b-0's tokens: two whole blocks of 16. Answers and everything after are its own."""
    ids = [list(range(64)), list(range(40)) + list(range(900, 924)), list(range(5000, 5030))]
    contents = name_contents([request(i, len(p)) for i, p in enumerate(ids)], ids, 16)
    keys = [contents[f"b-{i}"].keys for i in range(3)]
    assert [len(k) for k in keys] == [84 // 16, 84 // 16, 50 // 16]
    assert keys[0][:2] == keys[1][:2]
    assert len({*keys[0], *keys[1], *keys[2]}) == 5 + 3 + 3


def test_another_tokenisation_keeps_the_shared_part() -> None:
    """Both prompts have twice as many tokens there, and so has what they share."""
    ids = [list(range(64)), list(range(32)) + list(range(900, 932))]
    contents = name_contents([request(i, 128) for i in range(2)], ids, 16)
    assert contents["b-0"].keys[:4] == contents["b-1"].keys[:4]
    assert contents["b-0"].keys[4] != contents["b-1"].keys[4]
