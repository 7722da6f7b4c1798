"""`vicinal simulate` and `vicinal compare` as a user runs them."""

import json
import subprocess
import sys

import pytest


def vicinal(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vicinal.cli.main", *words], capture_output=True, text=True, timeout=120, check=False
    )


def test_simulate_prints_one_json_object_with_the_promised_keys():
    ran = vicinal("simulate", "--limit", "80", "--cluster", "block_tokens=256", "--json", "--seed", "3")
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert (said["requests"], said["completed"], said["failed"], said["shed"]) == (80, 80, 0, 0)
    assert (said["policy"], said["seed"], said["clock_debt"]) == ("cost", 3, 0.0)
    for key in ("ttft_s", "tpot_s", "e2e_s"):
        assert set(said[key]) == {"mean", "p50", "p90", "p99"}
    assert said["kv_bytes"]["same_rack"] > 0
    assert set(said["decision_us"]) == {"p50", "p99"}
    assert said["goodput"] > 0
    assert 0 < said["prefix_hit_rate"] < 1


def test_compare_gives_all_runs_and_a_picture(tmp_path):
    picture = tmp_path / "c.svg"
    words = ("--policies", "cost,round_robin", "--seeds", "2", "--limit", "60", "--sweep", "oversubscription=1,8")
    ran = vicinal("compare", *words, "--cluster", "block_tokens=256", "--plot", str(picture), "--json")
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert len(said["runs"]) == 8
    assert {(run["policy"], run["point"]["oversubscription"]) for run in said["runs"]} == {
        (policy, value) for policy in ("cost", "round_robin") for value in ("1", "8")
    }
    assert [arm["policy"] for arm in said["arms"]] == ["cost", "round_robin"] * 2
    assert said["arms"][0]["ttft_vs_first"] is None
    assert said["arms"][1]["ttft_vs_first"]["seeds"] == 2
    assert b"Goodput" in picture.read_bytes() or picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simulate", "--trace", "nope.jsonl"), "nope.jsonl: No such file"),
        (("simulate", "--trace", "conversaton:turns_mean=3"), "conversaton"),
        (("simulate", "--policy", "costt"), "Did you mean 'cost'?"),
        (("simulate", "--cluster", "nodes=4"), "a made cluster has no 'nodes'"),
        (("simulate", "--limit", "5", "--rate", "-1"), "rate must be positive"),
        (("compare", "--policies", "cost,cost"), "named twice"),
        (("compare", "--limit", "5", "--link-fault", "leaf/r9/up@1"), 'no link is called "leaf/r9/up"'),
        (("compare", "--limit", "5", "--death", "r9-p1@1"), "no endpoint is called r9-p1"),
        (("compare", "--policies", "cost,bost"), "unknown policy 'bost'"),
        (("compare", "--limit", "5", "--seeds", "1", "--plot", "x.docx"), "no picture format '.docx'"),
    ],
)
def test_mistakes_are_one_line_that_names_them(words, said):
    ran = vicinal(*words)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_is_left_out_of_a_trace_is_said(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("timestamp_ms,client_id,input_length,output_length\n0,a,100,5\n10,a,100,0\n20,b,100,5\n")
    ran = vicinal("simulate", "--trace", str(path), "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["completed"] == 2
    assert "2 requests" in ran.stderr
    assert "left out: 1" in ran.stderr
