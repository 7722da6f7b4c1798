"""`vicinal up` as a user runs it: engines, gateway and client in their own processes, over real sockets."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_row
from vicinal.domain.effects import Record
from vicinal.observe.encode import encode_decision
from vicinal.observe.read import records
from vicinal.observe.records import record_files
from vicinal.wiring.again import effects_again
from vicinal.workload.content import block_names
from vicinal.workload.prompt import Vocabulary
from vicinal.workload.trace import Trace, load_trace

CLI = (sys.executable, "-m", "vicinal.cli.main")
PORTS = 34
"""What `up` takes from its first port on."""


def vicinal(folder: Path, *words: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, *words], cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)


def trace(folder: Path, rows: int = 40) -> Path:
    """A small trace in Mooncake's format: three system prompts, every fifth request extends an earlier one."""
    path = folder / "trace.jsonl"
    lines = []
    for n in range(rows):
        blocks = [n % 3, *([100 + n - 5] if n % 5 == 0 and n else []), 100 + n]
        length = 512 * (len(blocks) - 1) + 200
        lines.append({"timestamp": 150 * n, "input_length": length, "output_length": 20, "hash_ids": blocks})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shared(asked: Trace, number: int) -> list[int]:
    """How many blocks of 512 the request has in common with each before it."""
    of, *others = (block_names(a.prompt.pieces, 512) for a in (asked.arrivals[number], *asked.arrivals[:number]))
    return [len(set(of) & set(other)) for other in others]


@pytest.mark.mission("C4", "B15", "A8")
@pytest.mark.parametrize("policy", ["cost", "least_loaded"])
def test_a_trace_runs_through_and_every_decision_can_be_explained(tmp_path: Path, policy: str) -> None:
    port = free_row(PORTS)
    done = vicinal(
        tmp_path,
        *("up", "--replay", str(trace(tmp_path)), "--speed", "4", "--policy", policy, "--port", str(port)),
        *("--json", "--exit", "--capture", "run.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    assert "API http://127.0.0.1:" in done.stderr, "a pipe hears where the gateway is, and how far the run has come"
    assert "40 of 40 requests are over, 0 under way, 0 failed, 0 shed" in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["requests"], summary["completed"], summary["failed"], summary["shed"]) == (40, 40, 0, 0)
    assert summary["policy"] == policy
    assert summary["ttft_s"]["p50"] > 0
    assert 0 < summary["prefix_hit_rate"] < 1
    if policy == "least_loaded":
        # `cost` may well find on so idle a cluster that decode endpoints prefill for themselves, and move nothing.
        assert summary["kv_bytes"]["same_rack"] + summary["kv_bytes"]["cross_rack"] > 0

    lines = list(records(tmp_path / "vicinal-data"))
    decided = {line.request_id for line in lines if type(line).__name__ == "DecisionRecord"}
    observed = {line.request_id for line in lines if type(line).__name__ == "ObservationRecord"}
    assert len(decided) == 40
    assert decided == observed

    again_asked = load_trace(tmp_path / "vicinal-data", Vocabulary(5, 9))
    asked = load_trace(tmp_path / "trace.jsonl", Vocabulary(5, 9))
    assert (dict(again_asked.skipped), dict(again_asked.assumed)) == ({}, {})
    assert [a.prompt_tokens for a in again_asked.arrivals] == [a.prompt_tokens for a in asked.arrivals]
    assert [a.output_tokens for a in again_asked.arrivals] == [20] * 40
    assert [shared(again_asked, n) for n in range(40)] == [shared(asked, n) for n in range(40)]

    explained = vicinal(tmp_path, "explain", "--slowest", "1", "--json")
    assert explained.returncode == 0, explained.stderr
    case = json.loads(explained.stdout)
    assert case["decisions"][0]["why_not_emptiest"]
    assert vicinal(tmp_path, "explain", "--last").stdout.count("winner") >= 1

    again = [encode_decision(e.decision) for e in effects_again(tmp_path / "run.jsonl") if isinstance(e, Record)]
    (file,) = record_files(tmp_path / "vicinal-data")
    live = [line for line in file.read_bytes().splitlines(keepends=True) if line.startswith(b'{"kind":"decision"')]
    assert again == live


def test_a_port_in_use_is_named_with_its_cure(tmp_path: Path) -> None:
    port = free_row(PORTS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = vicinal(tmp_path, "up", "--limit", "1", "--port", str(port), "--exit")
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert "port" in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("up", "--policy", "kost", "--exit"), "'cost'"),
        (("explain", "--last"), "vicinal-data"),
        (("explain",), "--slowest"),
        (("serve", "--config", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_what_a_user_can_mend_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = vicinal(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_malformed_trace_line_is_named(tmp_path: Path) -> None:
    path = trace(tmp_path, rows=3)
    path.write_text(path.read_text() + '{"timestamp": 1}\n')
    done = vicinal(tmp_path, "up", "--replay", str(path), "--port", str(free_row(PORTS)), "--exit")
    assert done.returncode == 2
    assert "trace.jsonl:4" in done.stderr
    assert "Traceback" not in done.stderr
    assert "API http" not in done.stderr, "nothing was started for it"


def test_a_closed_loop_is_played_and_what_is_not_sent_is_said(tmp_path: Path) -> None:
    call = {"session_id": "s", "agent": "a", "input_length": 70, "output_length": 5, "hash_ids": [1, 2]}
    rows = [call | {"turn": n, "timestamp": 100 * n, "output_length": 5 if n else 0} for n in range(4)]
    (tmp_path / "calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    port = free_row(PORTS)
    done = vicinal(
        tmp_path, "up", "--replay", "calls.jsonl", "--format", "agent", "--port", str(port), "--json", "--exit"
    )
    assert done.returncode == 0, done.stderr
    assert "calls.jsonl: 3 requests, format agent\n  left out: 1 (no output tokens)" in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["requests"], summary["completed"]) == (3, 3)


def test_an_unknown_key_of_the_configuration_is_refused_at_start(tmp_path: Path) -> None:
    (tmp_path / "vicinal.toml").write_text("[server]\nprot = 8000\n")
    done = vicinal(tmp_path, "serve", "--config", "vicinal.toml")
    assert done.returncode == 2
    assert "vicinal.toml:2" in done.stderr
    assert "port" in done.stderr
