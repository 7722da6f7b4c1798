"""What is the same for all formats: detection, options, and what is said of a file that cannot be used."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workload.traces import VOCABULARY, csv_file, json_file
from vicinal.workload.formats.registry import FORMATS
from vicinal.workload.formats.row import Kind
from vicinal.workload.trace import Spread, TraceError, TraceFormat, load_trace

MOONCAKE: dict[str, Any] = {"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}
CLIENTS = "timestamp_ms,client_id,input_length,output_length"


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(TraceError) as refused:
        load_trace(path, VOCABULARY, **options)
    return str(refused.value)


def test_each_format_has_its_name_and_asks_for_fields_of_its_own() -> None:
    assert [each.value for each in FORMATS] == list(TraceFormat)
    asked = [(each.kind, frozenset(each.fields)) for each in FORMATS.values()]
    assert len(set(asked)) == len(asked)


def test_gzip_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(f"\ufeff{CLIENTS}\r\n0,c,5,6\r\n\r\n".encode()))
    (arrival,) = load_trace(path, VOCABULARY).arrivals
    assert (arrival.prompt_tokens, arrival.output_tokens) == (5, 6)
    path.write_bytes(gzip.compress(f"{CLIENTS}\n0,c,5,6\n".encode())[:-9])
    assert "the gzip data is damaged after line" in refusal(path)


rows = st.lists(st.tuples(st.integers(0, 60_000), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=40)


@settings(deadline=None)
@given(rows, st.sampled_from(Spread), st.floats(0.01, 100.0), st.integers(0, 45) | st.none(), st.booleans())
def test_rate_and_spread_keep_order_and_count(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, int]],
    spread: Spread,
    rate: float,
    limit: int | None,
    start_at_zero: bool,
) -> None:
    """A prompt of n + 1 tokens is that of the n-th row."""
    lines = (f"{stamp},c{n},{n + 1},{output}" for n, (stamp, _, output) in enumerate(rows))
    path = csv_file(tmp_path_factory.mktemp("rows"), CLIENTS, *lines)
    kept = [(stamp, n + 1) for n, (stamp, _, output) in enumerate(rows) if output][:limit]
    if not kept and limit != 0:
        assert f"{len(rows)} (no output tokens)" in refusal(path)
        return
    trace = load_trace(path, VOCABULARY, spread=spread, rate=rate, limit=limit, start_at_zero=start_at_zero)
    expected = sorted(kept, key=lambda row: row[0])
    assert [a.prompt_tokens for a in trace.arrivals] == [tokens for _, tokens in expected]
    assert trace.requests == len(expected)
    if limit is None:
        assert trace.requests + sum(trace.skipped.values()) == len(rows)
    at_s = [a.at_s for a in trace.arrivals]
    assert at_s == sorted(at_s)
    first = expected[0][0] if expected and start_at_zero else 0
    plain = [(stamp - first) / 1e3 / rate for stamp, _ in expected]
    if spread is Spread.AS_STAMPED:
        assert at_s == pytest.approx(plain)
    elif spread is Spread.UNIFORM or not start_at_zero:  # at random, the first moves too
        assert all(moved >= stamp - 1e-9 for moved, stamp in zip(at_s, plain, strict=True))
    if at_s and start_at_zero:
        assert at_s[0] == 0.0


def test_options_that_cannot_be(tmp_path: Path) -> None:
    path = csv_file(tmp_path, CLIENTS, "0,c,5,6")
    for rate in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="rate must be positive and finite"):
            load_trace(path, VOCABULARY, rate=rate)
    with pytest.raises(ValueError, match="limit must not be negative"):
        load_trace(path, VOCABULARY, limit=-1)
    with pytest.raises(ValueError, match="block_tokens 16: a servegen trace has no hash ids"):
        load_trace(path, VOCABULARY, block_tokens=16)


def test_a_file_that_is_not_there_or_is_a_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jsonl") == f"{tmp_path}/none.jsonl: No such file or directory"
    assert refusal(tmp_path).startswith(f"{tmp_path}: a directory without decisions-*.jsonl")


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    assert refusal(path) == f"{path}: the file is empty; a trace has at least one request"


def test_a_header_and_nothing_else(tmp_path: Path) -> None:
    path = csv_file(tmp_path, CLIENTS)
    assert refusal(path) == f"{path}: no requests, read as servegen (detected)"
    assert load_trace(path, VOCABULARY, limit=0).arrivals == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"hello world\n",
            "expected JSON lines or a CSV header, plain or gzip, found 'hello world'. Known are mooncake",
        ),
        (b"\xff\xfe\x00,a,b\n", "expected JSON lines or a CSV header, plain or gzip, found"),
        (b"[1, 2]\n", "expected a JSON object in each line, found '[1, 2]': Expected `object`, got `array`"),
        (b"{\n", "expected a JSON object in each line, found '{': Input data was truncated"),
        (b"a,b,c\n1,2,3\n", "CSV with a, b, c: no known format. Known are mooncake, azure, burstgpt, qwen-bailian"),
        (
            b"TIMESTAMP,ContextTokens,Generated\n",
            "CSV with ContextTokens, Generated, TIMESTAMP: no known format; nearest is azure, which also needs "
            "GeneratedTokens. Known are",
        ),
    ],
)
def test_a_format_that_is_not_known(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"\n" + content)
    assert refusal(path).startswith(f"{path}:2: {said}")


def test_a_format_that_was_asked_for_in_error(tmp_path: Path) -> None:
    path = json_file(tmp_path, MOONCAKE)
    assert refusal(path, trace_format=TraceFormat.AZURE) == (
        f"{path}:1: no azure trace: expected CSV with TIMESTAMP, ContextTokens, GeneratedTokens, found JSON lines "
        "with hash_ids, input_length, output_length, timestamp (no TIMESTAMP, ContextTokens, GeneratedTokens); "
        "it looks like mooncake: ask for that or for none"
    )
    bad = json_file(tmp_path, MOONCAKE, {}, name="bad.jsonl")
    said = refusal(bad, trace_format=TraceFormat.MOONCAKE)
    assert said.startswith(
        f"{bad}:2: not a request: Object missing required field `timestamp`. Read as mooncake (as asked)"
    )
    assert said.endswith("Mend or remove the line, or leave the format out")


def test_a_format_that_fits_more_closely_wins_but_another_can_be_asked_for(tmp_path: Path) -> None:
    path = json_file(tmp_path, MOONCAKE | {"session_id": "a/1", "agent": "a", "turn": 0})
    assert load_trace(path, VOCABULARY).trace_format is TraceFormat.AGENT
    trace = load_trace(path, VOCABULARY, trace_format=TraceFormat.MOONCAKE)
    assert (trace.trace_format, trace.arrivals[0].session) == (TraceFormat.MOONCAKE, "a/1")
    assert FORMATS[TraceFormat.AGENT].kind is Kind.JSON_LINES
