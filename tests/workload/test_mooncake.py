"""Mooncake's format is read as it says, and a line that is wrong is named."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.workload.traces import VOCABULARY
from vicinal.workload.trace import Spread, TraceError, load_trace


def row(timestamp: float, input_length: int, hash_ids: list[int], output_length: int = 7, **more: object) -> str:
    return json.dumps(
        {
            "timestamp": timestamp,
            "input_length": input_length,
            "output_length": output_length,
            "hash_ids": hash_ids,
            **more,
        }
    )


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "made_up.jsonl"
    lines = [
        row(0, 1030, [3, 4, 5]),
        row(0, 1024, [3, 4], output_length=1, session_id="s", tenant="t", other=1),
        "",
        row(3000, 512, [3]),
        row(6000, 20, [9]),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_lengths_times_and_shared_prefixes(trace: Path) -> None:
    arrivals = load_trace(trace, VOCABULARY).arrivals
    assert [a.at_s for a in arrivals] == [0.0, 0.0, 3.0, 6.0]
    assert [a.prompt_tokens for a in arrivals] == [1030, 1024, 512, 20]
    assert [a.output_tokens for a in arrivals] == [7, 1, 7, 7]
    assert [(a.session, a.tenant) for a in arrivals[:2]] == [(None, None), ("s", "t")]
    first, second, third, fourth = (a.prompt_token_ids for a in arrivals)
    assert np.array_equal(first[:1024], second)
    assert np.array_equal(first[:512], third)
    assert np.array_equal(first[1024:], VOCABULARY.draw(5, 6))
    assert not np.array_equal(first[:20], fourth)
    assert first.min() >= 5


def test_another_block_size(tmp_path: Path) -> None:
    small = tmp_path / "small.jsonl"
    small.write_text(row(0, 65, [1, 2]), encoding="utf-8")
    assert load_trace(small, VOCABULARY, block_tokens=64).arrivals[0].prompt.pieces[1].tokens == 1
    with pytest.raises(ValueError, match="block_tokens must be positive"):
        load_trace(small, VOCABULARY, block_tokens=0)


def test_requests_of_a_step_can_be_spread_over_it(trace: Path) -> None:
    arrivals = load_trace(trace, VOCABULARY, spread=Spread.UNIFORM).arrivals
    assert [a.at_s for a in arrivals] == [0.0, 1.5, 3.0, 6.0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"timestamp": 0', "not valid JSON"),
        ("[]", "not a request: Expected `object`, got `array`"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1}', "missing required field `hash_ids`"),
        (row(0, 5, [1]).replace("[1]", '["a"]'), "Expected `int`, got `str` - at `$.hash_ids[0]`"),
        (row(-1, 5, [1]), "timestamp -1 is before the start"),
        (row(0, -5, []), "input_length -5 is negative"),
        (row(0, 1 << 25, []), "input_length 33554432 is more than any model takes (16,777,216)"),
        (row(0, 5, [1], output_length=-1), "output_length -1 is negative"),
        (row(0, 513, [1]), "1 hash_ids for 513 prompt tokens; with 512 tokens each it takes 2"),
        (row(0, 512, [1, 2]), "2 hash_ids for 512 prompt tokens; with 512 tokens each it takes 1"),
        (row(0, 5, [-1]), "hash id -1 is negative"),
        (row(0, 5, [1 << 64]), "hash id 18446744073709551616 has more than 64 bits"),
    ],
)
def test_a_malformed_line_is_named_with_its_reason(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(row(0, 5, [1]) + "\n\n" + line + "\n", encoding="utf-8")
    with pytest.raises(TraceError) as refused:
        load_trace(path, VOCABULARY)
    text = str(refused.value)
    assert text.startswith(f"{path}:3: ")
    assert reason in text
    assert "Read as mooncake (detected): JSON lines with timestamp, input_length, output_length, hash_ids" in text
