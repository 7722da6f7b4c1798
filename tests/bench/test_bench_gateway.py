"""The comparison of routers works: its prompts, its engines, its counting of CPU, and a tiny run of the real thing."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import vicinal
from vicinal.cli.bench_gateway import GatewayBench, GatewayFigures, measure
from vicinal.cli.bench_gateway_answers import AnswerReader
from vicinal.cli.bench_gateway_command import gateway, tables
from vicinal.cli.bench_gateway_engines import Answers, EngineSpec
from vicinal.cli.bench_gateway_prompts import PROMPT_TOKENS_MIN, ChatRequests, shared_tokens
from vicinal.cli.bench_gateway_routers import routers
from vicinal.cli.bench_gateway_tree import tree_cpu_s
from vicinal.cli.problems import UsageError
from vicinal.tokenizer.tokenizer import Tokenizer

SPEC = EngineSpec(engines=1, prompt_tokens=2000, shared_tokens=999, chunks=3, step_s=0.0)


def _tokenizer() -> Tokenizer:
    return Tokenizer.load(Path(vicinal.__file__).parent / "data" / "tiny-model")


@pytest.mark.parametrize("tokens", [PROMPT_TOKENS_MIN, 25, 2000])
def test_each_prompt_has_its_tokens_and_shares_half_of_them_with_its_group_only(tokens: int) -> None:
    tokenizer, requests = _tokenizer(), ChatRequests(tokens, 8, 2, streamed=False, seed=3)
    prompts = [tokenizer.encode_chat(json.loads(requests.body())["messages"]) for _ in range(40)]
    assert {len(prompt) for prompt in prompts} == {tokens}
    shared = shared_tokens(tokens)
    assert len({tuple(prompt[:shared]) for prompt in prompts}) == 2
    assert len({tuple(prompt[shared : shared + 10]) for prompt in prompts}) == 40
    assert abs(shared - tokens / 2) <= 2


def test_a_request_says_how_its_answer_is_wanted() -> None:
    streamed, plain = (ChatRequests(100, 8, 1, streamed=streamed, seed=0) for streamed in (True, False))
    assert json.loads(streamed.body())["stream_options"] == {"include_usage": True}
    assert "stream" not in json.loads(plain.body())
    head, _, body = plain.message().partition(b"\r\n\r\n")
    assert int(head.rpartition(b":")[2]) == len(body)


@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_an_answer_is_whole_at_its_last_byte_and_right_only_with_all_its_tokens(size: int) -> None:
    answers = Answers(SPEC)
    body = answers.whole(cached=True)
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    stream = head + answers.token() + answers.token() + answers.last_token(cached=False)
    short = head + answers.token() + answers.last_token(cached=False)
    for raw, good in ((whole, True), (stream, True), (short, False), (whole.replace(b"200", b"503"), False)):
        reader = AnswerReader()
        fed = [reader.feed(raw[at : at + size]) for at in range(0, len(raw), size)]
        assert fed == [False] * (len(fed) - 1) + [True]
        assert reader.has(3) is good


def test_chunks_may_be_cut_anew_within_a_token() -> None:
    reader = AnswerReader()
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n to\r\n3\r\nken\r\n0\r\n\r\n"
    assert reader.feed(raw)
    assert reader.has(1)
    assert not reader.has(2)


def test_the_cpu_of_a_tree_has_that_of_children_and_of_those_that_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\nprint('ended', flush=True)\n"
    script += (
        f"child = subprocess.Popen([sys.executable, '-c', {burn!r} + '; print(1, flush=True); input()'], stdin=-1)\n"
    )
    script += "input()"
    with subprocess.Popen(
        [sys.executable, "-c", script.replace("; print", "\\nprint")], stdin=-1, stdout=subprocess.PIPE
    ) as tree:
        assert tree.stdout is not None
        tree.stdout.readline()
        one_s = tree_cpu_s(tree.pid)
        tree.stdout.readline()
        two_s = tree_cpu_s(tree.pid)
        tree.kill()
    assert one_s >= 0.3
    assert two_s >= one_s + 0.29
    with pytest.raises(ProcessLookupError):
        tree_cpu_s(tree.pid)


def test_peers_that_are_not_installed_are_named(tmp_path: Path) -> None:
    found = {router.name: router for router in routers((0, 2), tmp_path)}
    for name in ("sglang-router 0.3.2", "vllm-router 0.1.17", "envoy 1.40.0"):
        assert str(tmp_path) in found[name].absent
    assert not found["vicinal"].absent
    assert not found["vicinal, 2 relays"].absent


def test_a_tiny_run_measures_the_gateway_and_names_who_is_absent(tmp_path: Path) -> None:
    bench = GatewayBench(
        endpoints=2,
        prompt_tokens=100,
        chunks=4,
        groups=2,
        connections=2,
        seconds=0.5,
        warm_s=0.2,
        peers=tmp_path,
        only=("vicinal", "sglang"),
    )
    told: list[str] = []
    figures = list(measure(bench, told.append))
    assert [(each.router, each.kind) for each in figures] == [
        ("direct", "plain"),
        ("direct", "streamed"),
        ("vicinal", "plain"),
        ("vicinal", "streamed"),
        ("sglang-router 0.3.2", ""),
    ]
    assert told == ["direct, plain", "direct, streamed", "vicinal, plain", "vicinal, streamed"]
    direct, _, plain, streamed, absent = figures
    assert str(tmp_path) in absent.absent
    assert all(each.failed == 0 for each in figures)
    assert direct.cpu_ms is None, "there is no router whose CPU could be counted"
    for each in (plain, streamed):
        assert each.requests_per_s is not None
        assert each.half_rate == each.requests_per_s / 2
        assert each.cpu_ms is not None
        assert each.added_ms.p50 is not None
    assert (plain.chunks_per_s, plain.added_token_ms.p99) == (None, None)
    assert streamed.chunks_per_s == streamed.requests_per_s * 4
    assert streamed.added_token_ms.p99 is not None
    decoded = msgspec.json.decode(msgspec.json.encode(figures), type=list[GatewayFigures])
    assert decoded == figures
    assert [shown.row_count for shown in tables(bench, figures)] == [4, 2]


def test_the_command_says_the_load_and_the_figures_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gateway(
        endpoints=1,
        prompt_tokens=50,
        chunks=2,
        connections=1,
        seconds=0.2,
        warm_s=0.1,
        peers=tmp_path,
        only="vllm",
        json=True,
    )
    said = json.loads(capsys.readouterr().out)
    assert said["load"]["peers"] == str(tmp_path)
    assert [each["router"] for each in said["figures"]] == ["direct", "direct", "vllm-router 0.1.17"]


@pytest.mark.parametrize("wrong", [{"prompt_tokens": PROMPT_TOKENS_MIN - 1}, {"relays": "0,x"}])
def test_what_cannot_be_measured_is_refused_in_words(wrong: dict) -> None:
    with pytest.raises(UsageError, match="--"):
        gateway(**wrong)
