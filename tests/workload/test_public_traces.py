"""The public traces have the figures that were measured on them independently (papers-and-data.md, section B)."""

import statistics
from pathlib import Path

import pytest

from tests.workload.traces import TRACES, VOCABULARY, public
from vicinal.workload.content import block_names
from vicinal.workload.trace import Trace, TraceError, TraceFormat, load_trace

pytestmark = public


def load(name: str) -> Trace:
    return load_trace(TRACES / name, VOCABULARY)


def hit_share(prompts, block_tokens: int) -> float:
    """Share of full blocks that an endless cache has already."""
    seen: set[int] = set()
    hits = total = 0
    for prompt in prompts:
        names = block_names(prompt.pieces, block_tokens)
        hits += sum(name in seen for name in names)
        total += len(names)
        seen.update(names)
    return hits / total


@pytest.mark.parametrize(
    ("name", "trace_format", "rows", "span_s", "prompt_mean", "output_mean"),
    [
        ("mooncake/conversation_trace.jsonl", TraceFormat.MOONCAKE, 12_031, 3_537, 12_035, 343),
        ("mooncake/synthetic_trace.jsonl", TraceFormat.MOONCAKE, 3_993, 1_022, 15_325, 149),
        ("dynamo/mooncake_trace_1000.jsonl", TraceFormat.MOONCAKE, 1_000, 177, 9_792, 199),
        ("azure2023/AzureLLMInferenceTrace_conv.csv", TraceFormat.AZURE, 19_366, 3_502, 1_155, 211),
        ("azure2023/AzureLLMInferenceTrace_code.csv", TraceFormat.AZURE, 8_819, 3_436, 2_048, 28),
        ("rtp-llm/trace_30min.jsonl", TraceFormat.RTP_LLM, 8_332, 796, 6_068, 493),
        ("vtc/real_trace.csv", TraceFormat.VTC, 1_500, 600, 136, 256),
        ("servegen/sample_1h_m-large_10rps.csv", TraceFormat.SERVEGEN, 35_818, 3_600, 1_341, 156),
        ("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl", TraceFormat.SHAREGPT, 300, 29, 857, 653),
    ],
)
def test_rows_span_and_means(
    name: str, trace_format: TraceFormat, rows: int, span_s: float, prompt_mean: float, output_mean: float
) -> None:
    trace = load(name)
    assert trace.trace_format is trace_format
    assert trace.requests == len(trace.arrivals) == rows
    assert trace.arrivals[-1].at_s == pytest.approx(span_s, abs=0.8)
    assert statistics.fmean(a.prompt_tokens for a in trace.arrivals) == pytest.approx(prompt_mean, abs=0.75)
    assert statistics.fmean(a.output_tokens for a in trace.arrivals) == pytest.approx(output_mean, abs=0.75)
    assert trace.skipped == {}


@pytest.mark.parametrize(
    ("name", "block_tokens", "share"),
    [
        ("mooncake/conversation_trace.jsonl", 512, 0.366),
        ("mooncake/synthetic_trace.jsonl", 512, 0.640),
        ("dynamo/mooncake_trace_1000.jsonl", 512, 0.380),
        ("rtp-llm/trace_30min.jsonl", 1024, 0.223),
        ("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl", 16, 0.0775),
    ],
)
def test_what_an_endless_cache_would_hit(name: str, block_tokens: int, share: float) -> None:
    """The measured shares count a partial last block as one; here only full blocks have a name."""
    assert hit_share((a.prompt for a in load(name).arrivals), block_tokens) == pytest.approx(share, abs=0.02)


def test_rtp_llm_counts_its_rows_without_output_and_has_three_priorities() -> None:
    trace = load("rtp-llm/trace_30min.jsonl")
    assert dict(trace.assumed) == {"one output token taken where the log has none": 2_290}
    count = [sum(a.priority == priority for a in trace.arrivals) / trace.requests for priority in (30, 50, 70)]
    assert count == pytest.approx([0.2, 0.6, 0.2], abs=0.01)


def test_vtc_has_27_clients_and_two_of_them_dominate() -> None:
    tenants = [a.tenant for a in load("vtc/real_trace.csv").arrivals]
    shares = sorted((tenants.count(tenant) / len(tenants) for tenant in set(tenants)), reverse=True)
    assert len(shares) == 27
    assert shares[:2] == pytest.approx([0.20, 0.17], abs=0.006)


def test_servegen_has_42_tenants() -> None:
    assert len({a.tenant for a in load("servegen/sample_1h_m-large_10rps.csv").arrivals}) == 42


@pytest.mark.parametrize(
    ("agent", "prompt_mean", "output_mean", "hit"),
    [("miniswe", 7_410, 114, 0.926), ("magagent", 2_189, 664, 0.815), ("taubench", 215, 22, 0.780)],
)
def test_agent_sessions(agent: str, prompt_mean: float, output_mean: float, hit: float) -> None:
    trace = load("agent/agent_sessions_blk64.jsonl")
    assert (len(trace.arrivals), trace.requests) == (69, 1_566)
    sessions = [a for a in trace.arrivals if a.session is not None and a.session.startswith(agent)]
    calls = [
        call
        for a in sessions
        for call in ((a.prompt, a.output_tokens), *((t.prompt, t.output_tokens) for t in a.later))
    ]
    assert statistics.fmean(prompt.tokens for prompt, _ in calls) == pytest.approx(prompt_mean, abs=0.75)
    assert statistics.fmean(tokens for _, tokens in calls) == pytest.approx(output_mean, abs=0.75)
    seen: set[int] = set()
    hits = blocks = 0
    for prompt, _ in calls:
        streams = {piece.stream for piece in prompt.pieces}
        hits, blocks = hits + len(streams & seen), blocks + len(streams)
        seen |= streams
    assert hits / blocks == pytest.approx(hit, abs=0.001), "within an agent, partial blocks included"
    pauses_s = [turn.pause_s for a in sessions for turn in a.later]
    assert sum(pause == 0 for pause in pauses_s) <= 0.01 * len(pauses_s), "6 ms per token is hardly ever all of a gap"


def test_what_is_no_trace_of_requests_is_refused_by_its_fields() -> None:
    for name, said in (
        ("servegen/clients_summary.csv", ":1: CSV with active_windows, client, "),
        (
            "dynamo/pi_request_trace.jsonl.gz",
            ":1: JSON lines with event, timestamp: no known format; nearest is mooncake",
        ),
        ("README.md", ":1: expected JSON lines or a CSV header"),
    ):
        with pytest.raises(TraceError) as refused:
            load(name)
        assert str(refused.value).startswith(f"{Path(TRACES / name)}{said}")
