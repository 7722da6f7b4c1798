"""A trace is read as it says, and a line that is wrong is named."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.workload.mooncake import Spread, TraceError, load_mooncake, spread_uniformly
from vicinal.workload.prompt import Vocabulary

VOCABULARY = Vocabulary(5, 1024)


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
    arrivals = load_mooncake(trace, VOCABULARY)
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


def test_limit_rate_and_block_size(trace: Path, tmp_path: Path) -> None:
    assert len(load_mooncake(trace, VOCABULARY, limit=2)) == 2
    assert load_mooncake(trace, VOCABULARY, limit=0) == []
    assert [a.at_s for a in load_mooncake(trace, VOCABULARY, rate=3.0)] == [0.0, 0.0, 1.0, 2.0]
    small = tmp_path / "small.jsonl"
    small.write_text(row(0, 65, [1, 2]), encoding="utf-8")
    assert load_mooncake(small, VOCABULARY, block_tokens=64)[0].prompt.pieces[1].tokens == 1
    with pytest.raises(ValueError, match="rate must be positive"):
        load_mooncake(trace, VOCABULARY, rate=0.0)


def test_requests_of_a_step_can_be_spread_over_it(trace: Path) -> None:
    arrivals = load_mooncake(trace, VOCABULARY, spread=Spread.UNIFORM)
    assert [a.at_s for a in arrivals] == [0.0, 1.5, 3.0, 6.0]


@settings(deadline=None)
@given(st.lists(st.integers(0, 40).map(lambda step: step * 3.0)).map(sorted))
def test_spreading_keeps_order_and_stays_within_a_step(stamps_s: list[float]) -> None:
    spread_s = spread_uniformly(stamps_s)
    assert len(spread_s) == len(stamps_s)
    distinct = sorted(set(stamps_s))
    following = dict(pairwise(distinct))
    for before, after in zip(stamps_s, spread_s, strict=True):
        assert before <= after
        assert after < following.get(before, float("inf"))
    assert spread_s == sorted(spread_s)
    if len(set(stamps_s)) > 1:
        assert len(set(spread_s)) == len(spread_s)


def test_a_pause_stays_a_pause() -> None:
    assert spread_uniformly([0.0, 3.0, 6.0, 6.0, 600.0]) == [0.0, 3.0, 6.0, 7.5, 600.0]
    assert spread_uniformly([]) == []
    assert spread_uniformly([4.0, 4.0]) == [4.0, 4.0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"timestamp": 0', "not valid JSON"),
        ("[]", "not a request: Expected `object`, got `array`"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1}', "missing required field `hash_ids`"),
        (row(0, 5, [1]).replace("[1]", '["a"]'), "Expected `int`, got `str` - at `$.hash_ids[0]`"),
        (row(-1, 5, [1]), "timestamp -1 is before the start"),
        (row(0, 0, []), "input_length 0 is less than 1"),
        (row(0, 5, [1], output_length=0), "output_length 0 is less than 1"),
        (row(0, 513, [1]), "1 hash_ids for input_length 513; with 512 tokens each it takes 2"),
        (row(0, 512, [1, 2]), "2 hash_ids for input_length 512; with 512 tokens each it takes 1"),
        (row(0, 5, [-1]), "hash id -1 is negative"),
    ],
)
def test_a_malformed_line_is_named_with_its_reason(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(row(0, 5, [1]) + "\n\n" + line + "\n", encoding="utf-8")
    with pytest.raises(TraceError) as refused:
        load_mooncake(path, VOCABULARY)
    assert str(refused.value).startswith(f"{path}:3: ")
    assert reason in str(refused.value)


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.jsonl: No such file"):
        load_mooncake(tmp_path / "none.jsonl", VOCABULARY)


@pytest.mark.skipif("VICINAL_TRACES" not in os.environ, reason="VICINAL_TRACES does not name a folder of public traces")
def test_a_public_trace_has_the_published_figures() -> None:
    path = Path(os.environ["VICINAL_TRACES"]) / "mooncake" / "conversation_trace.jsonl"
    arrivals = load_mooncake(path, VOCABULARY)
    assert len(arrivals) == 12_031
    assert round(np.mean([a.prompt_tokens for a in arrivals])) == 12_035
    assert round(np.mean([a.output_tokens for a in arrivals])) == 343
