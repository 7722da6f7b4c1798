"""The simulator's figures are complete, follow from what ran, and claim nothing beside a peer that is not there."""

import json
import os
import stat

import numpy as np
import pytest

from vicinal.cli.bench_dynamo import PYTHON_VARIABLE, PeerError, write_tables
from vicinal.cli.bench_simulate import AIM_RATIO, figures
from vicinal.config.cluster import endpoints
from vicinal.config.made import made_cluster
from vicinal.enginemodel.profiles import profile

ENDPOINT = endpoints(made_cluster("aggregated:block_tokens=512"))[0]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "some_trace.jsonl"
    rows = [{"timestamp": 500 * k, "input_length": 1024, "output_length": 40, "hash_ids": [0, k]} for k in range(30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A program in the place of Dynamo's Python: it notes how it was called and prints what it is told."""

    def make(script):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv(PYTHON_VARIABLE, str(path))
        return tmp_path / "calls"

    return make


def test_without_a_peer_nothing_is_claimed(trace, monkeypatch):
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    cpu, wall, cost, longer, memory = figures(trace, memory_requests=600)
    assert (cpu.name, cpu.unit) == ("some_trace, requests per second of CPU", "1/s")
    assert cpu.value == pytest.approx(1e6 / cost.value)
    assert all(figure.value > 0 for figure in (cpu, wall, cost, longer))
    assert "grown over" in memory.name
    for figure in (cpu, wall, cost, longer, memory):
        assert (figure.peer, figure.ratio, figure.aim, figure.holds) == (None, None, None, None)


def test_without_a_trace_requests_are_made(monkeypatch):
    monkeypatch.delenv("VICINAL_TRACES", raising=False)
    cpu, _, _, longer, _ = figures(limit=60, memory_requests=300)
    assert cpu.name == "conversation, requests per second of CPU"
    assert longer.value > 0


def test_beside_a_peer_the_ratio_is_held_to_the_aim(trace, stand_in):
    calls = stand_in("""echo '{"requests": 10, "cpu_s": 1000.0, "wall_s": 100.0}'""")
    cpu, wall, *_ = figures(trace, limit=20, memory_requests=300)
    assert (cpu.peer, wall.peer) == (0.01, 0.1)
    assert cpu.ratio == pytest.approx(cpu.value / 0.01)
    assert (cpu.aim, cpu.holds, wall.aim, wall.holds) == (AIM_RATIO, True, None, None)
    told = calls.read_text().splitlines()
    assert len(told) == 3
    assert '"block_size": 512, "num_gpu_blocks": 2343' in told[0]
    assert " 16 {" in told[0]


def test_a_slower_run_than_promised_says_so(trace, stand_in):
    stand_in("""echo '{"requests": 1000000, "cpu_s": 0.001, "wall_s": 0.001}'""")
    assert figures(trace, limit=20, memory_requests=300)[0].holds is False


def test_a_peer_that_fails_is_named_with_what_it_said(trace, stand_in):
    stand_in("echo no module named dynamo >&2; exit 1")
    with pytest.raises(PeerError, match=f"{PYTHON_VARIABLE}.*no module named dynamo"):
        figures(trace, limit=20, memory_requests=300)


def test_the_tables_are_the_profile(tmp_path):
    write_tables(ENDPOINT, tmp_path / "t.npz")
    fit, tables = profile(ENDPOINT.profile), np.load(tmp_path / "t.npz")
    at = int(np.searchsorted(tables["prefill_isl"], 8000.0))
    assert tables["prefill_ttft_ms"][at] == pytest.approx(1e3 * fit.prefill_s(float(tables["prefill_isl"][at]), 0.0))
    context, active = tables["decode_context_length"], tables["decode_active_kv_tokens"]
    sequences = active[100] / context[80]
    assert sequences > 1
    assert tables["decode_itl"][100, 80] == pytest.approx(1e3 * fit.step_s(sequences, float(active[100])))


@pytest.mark.skipif(PYTHON_VARIABLE not in os.environ, reason=f"{PYTHON_VARIABLE} names no Python that has Dynamo")
def test_dynamo_replays_every_request(trace, tmp_path):
    from vicinal.cli.bench_dynamo import replay

    assert replay(os.environ[PYTHON_VARIABLE], trace, 16, ENDPOINT, tmp_path).requests == 30
