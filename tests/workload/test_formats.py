"""Each format on a small made-up sample: what becomes of its fields, and what of its oddities."""

from pathlib import Path

import numpy as np
import pytest

from tests.workload.traces import VOCABULARY, common_tokens, csv_file, json_file
from vicinal.workload.prompt import Literal
from vicinal.workload.trace import TraceError, TraceFormat, load_trace


def lengths(trace) -> list[tuple[float, int, int]]:
    return [(round(a.at_s, 6), a.prompt_tokens, a.output_tokens) for a in trace.arrivals]


@pytest.mark.parametrize(
    "stamps",
    [
        ("2023-11-16 18:17:03.9799600", "2023-11-16 18:17:04.4799600", "2023-11-17 00:00:00.0000000"),
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:00.509930+00:00", "2024-05-10 05:42:56.029970+00:00"),
        ("2024-05-10 02:00:00+02:00", "2024-05-10 00:00:00.500000+00:00", "2024-05-10 05:42:56.020040+00:00"),
    ],
    ids=["2023", "2024", "zones"],
)
def test_azure_in_both_forms_of_its_stamps(tmp_path: Path, stamps: tuple[str, ...]) -> None:
    rows = [f"{stamp},{100 + n},{n + 1}" for n, stamp in enumerate(stamps)]
    trace = load_trace(csv_file(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens", *rows), VOCABULARY)
    assert trace.trace_format is TraceFormat.AZURE
    assert lengths(trace) == [(0.0, 100, 1), (0.5, 101, 2), (20576.02004, 102, 3)]
    assert common_tokens(*trace.arrivals[:2]) < 5, "prompts without ids share nothing"


def test_azure_of_2024_mixes_stamps_with_and_without_decimals(tmp_path: Path) -> None:
    rows = ("2024-05-12 00:00:01+00:00,7,8", "2024-05-12 00:00:00.250000+00:00,5,6")
    trace = load_trace(csv_file(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens", *rows), VOCABULARY)
    assert lengths(trace) == [(0.0, 5, 6), (0.75, 7, 8)], "sorted by time"


def test_burstgpt_without_sessions_leaves_failures_out(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
        "5,ChatGPT,472,18,490,Conversation log",
        "45.0,GPT-4,300.0,0,300,API log",
        "118,GPT-4,417,276,693,Conversation log",
    )
    trace = load_trace(path, VOCABULARY)
    assert trace.trace_format is TraceFormat.BURSTGPT
    assert lengths(trace) == [(0.0, 472, 18), (113.0, 417, 276)]
    assert [a.model for a in trace.arrivals] == ["ChatGPT", "GPT-4"]
    assert dict(trace.skipped) == {"no output tokens": 1}
    assert trace.assumed == {}
    assert load_trace(path, VOCABULARY, start_at_zero=False).arrivals[0].at_s == 5.0


def test_burstgpt_with_sessions_continues_them_where_the_lengths_allow(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
        "19440110.0,s1,43,GPT-4,100,20,120,Conversation log",
        "19440111.0,s2,4,GPT-4,100,20,120,Conversation log",
        "19440120.0,s1,2,GPT-4,150,10,160,Conversation log",
        "19440130.0,s1,2,GPT-4,160,10,170,Conversation log",
        "19440140.0,s1,2,GPT-4,30,10,40,Conversation log",
        "19440150.0,,2,GPT-4,150,10,160,API log",
    )
    trace = load_trace(path, VOCABULARY)
    first, other, second, third, anew, alone = trace.arrivals
    assert [a.session for a in trace.arrivals] == ["s1", "s2", "s1", "s1", "s1", None]
    assert first.answer is not None
    assert np.array_equal(second.prompt_token_ids[:100], first.prompt_token_ids)
    assert second.prompt.pieces[1] == first.answer, "the answer is in the next prompt"
    assert third.prompt.pieces == (*second.prompt.pieces, second.answer), "exactly as long as what was said"
    assert max(common_tokens(first, a) for a in (other, anew, alone)) < 5
    assert dict(trace.assumed) == {"prompt taken to begin with its session's last turn": 2}


def qwen(chat: int, parent: int, at_s: float, tokens: int, ids: list[int], output: int = 5) -> dict[str, object]:
    return {
        "chat_id": chat,
        "parent_chat_id": parent,
        "timestamp": at_s,
        "input_length": tokens,
        "output_length": output,
        "type": "text",
        "turn": 1,
        "hash_ids": ids,
    }


def test_qwen_bailian_links_turns_to_sessions(tmp_path: Path) -> None:
    path = json_file(
        tmp_path,
        qwen(55, -1, 1.5, 33, [1, 2, 3]),
        qwen(159, 55, 61.5, 40, [1, 2, 4]),
        qwen(160, 159, 71.5, 50, [1, 2, 4]),
        qwen(161, 17, 72.5, 32, [9, 8]),
        qwen(162, 161, 73.5, 16, [9], output=0),
        qwen(163, 162, 74.5, 16, [9]),
    )
    trace = load_trace(path, VOCABULARY)
    assert trace.trace_format is TraceFormat.QWEN_BAILIAN
    assert lengths(trace) == [(0.0, 33, 5), (60.0, 40, 5), (70.0, 50, 5), (71.0, 32, 5), (73.0, 16, 5)]
    assert [a.session for a in trace.arrivals] == ["55", "55", "55", "17", "17"], "an unknown parent names them too"
    first, second, third, fourth, last = trace.arrivals
    assert 32 <= common_tokens(first, second) < 36
    assert common_tokens(second, third) == 40, "a partial block is a prefix of its stream"
    assert common_tokens(third, fourth) < 5
    assert common_tokens(fourth, last) == 16
    assert third.prompt.pieces[-1].tokens == 2, "with full blocks only, the rest is its own"
    assert third.prompt.pieces[-1].stream not in range(1000)


def rtp(ts: int, il: int, ol: int, bh: list[str], priority: int = 50) -> dict[str, object]:
    return {"ts": ts, "il": il, "ol": ol, "bh": bh, "priority": priority, "ttfb": 4.0, "total": 9.0, "shard": 1}


def test_rtp_llm_has_full_blocks_and_rows_without_output(tmp_path: Path) -> None:
    path = json_file(
        tmp_path,
        rtp(100, 2050, 12, ["2847064831488175728", "11"], priority=70),
        rtp(1100, 2060, 0, ["2847064831488175728", "11"]),
        rtp(2100, 93, 3, []),
        rtp(2200, 1024, 3, ["-3"]),
    )
    trace = load_trace(path, VOCABULARY)
    assert lengths(trace) == [(0.0, 2050, 12), (1.0, 2060, 1), (2.0, 93, 3), (2.1, 1024, 3)]
    assert dict(trace.assumed) == {"one output token taken where the log has none": 1}
    assert 2048 <= common_tokens(*trace.arrivals[:2]) < 2050
    assert [a.priority for a in trace.arrivals] == [70, 50, 50, 50]
    assert trace.arrivals[3].prompt.pieces[0].stream == (1 << 64) - 3


@pytest.mark.parametrize(("column", "stamps"), [("timestamp_s", (0.5, 2.0)), ("timestamp_ms", (500, 2000))])
def test_clients_are_tenants(tmp_path: Path, column: str, stamps: tuple[float, float]) -> None:
    path = csv_file(
        tmp_path, f"{column},client_id,input_length,output_length", f"{stamps[0]},8,13,199", f"{stamps[1]},b,3,1"
    )
    trace = load_trace(path, VOCABULARY)
    assert trace.trace_format is (TraceFormat.VTC if column == "timestamp_s" else TraceFormat.SERVEGEN)
    assert lengths(trace) == [(0.0, 13, 199), (1.5, 3, 1)]
    assert [a.tenant for a in trace.arrivals] == ["8", "b"]


def sharegpt(at_ns: int, prompt: list[int], answer: list[int], **more: object) -> dict[str, object]:
    return {"arrival_time_ns": at_ns, "input_tok_ids": prompt, "output_tok_ids": answer, **more}


def test_sharegpt_has_the_tokens_themselves(tmp_path: Path) -> None:
    path = json_file(
        tmp_path, sharegpt(46_000_000, [5, 127_787, 5], [6, 7]), sharegpt(146_000_000, [5], [], input_toks=1)
    )
    trace = load_trace(path, VOCABULARY)
    assert lengths(trace) == [(0.0, 3, 2)]
    assert trace.arrivals[0].prompt_token_ids.tolist() == [5, 127_787, 5]
    assert trace.arrivals[0].answer == Literal(np.array([6, 7], dtype="<u4").tobytes())
    assert dict(trace.skipped) == {"no output tokens": 1}


def call(session: str, turn: int, at_ms: int, tokens: int, ids: list[int], output: int = 100) -> dict[str, object]:
    return {
        "session_id": session,
        "agent": "a",
        "turn": turn,
        "timestamp": at_ms,
        "input_length": tokens,
        "output_length": output,
        "hash_ids": ids,
    }


def test_agent_sessions_are_closed_loops(tmp_path: Path) -> None:
    path = json_file(
        tmp_path,
        call("a/1", 0, 0, 70, [0, 1]),
        call("a/2", 0, 0, 60, [7], output=0),
        call("a/1", 1, 1000, 130, [0, 2, 3], output=200),
        call("a/2", 1, 5000, 64, [7]),
        call("a/1", 2, 2000, 130, [0, 2, 3]),
        call("a/2", 2, 9000, 64, [7]),
    )
    trace = load_trace(path, VOCABULARY)
    assert trace.requests == 5
    assert dict(trace.skipped) == {"no output tokens": 1}
    one, two = trace.arrivals
    assert [(a.session, a.at_s) for a in trace.arrivals] == [("a/1", 0.0), ("a/2", 1.0)]
    assert [turn.pause_s for turn in one.later] == [pytest.approx(0.4), 0.0], "6 ms per token off, and never below 0"
    assert [turn.pause_s for turn in two.later] == [pytest.approx(3.4)]
    second = one.following(10.0)
    assert second is not None
    assert (second.at_s, second.prompt_tokens, second.output_tokens) == (pytest.approx(10.4), 130, 200)
    assert 64 <= common_tokens(one, second) < 68, "up to the last full block of the earlier prompt"

    faster = load_trace(path, VOCABULARY, rate=4.0)
    assert [a.at_s for a in faster.arrivals] == [0.0, 0.25]
    assert [a.later for a in faster.arrivals] == [one.later, two.later], "an agent thinks no faster"
    assert load_trace(path, VOCABULARY, limit=2).requests == 2


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
VTC = "timestamp_s,client_id,input_length,output_length"
BURST = "Timestamp,Model,Request tokens,Response tokens"


@pytest.mark.parametrize(
    ("header", "row", "reason"),
    [
        (AZURE, "16.11.2023,1,2", "TIMESTAMP is '16.11.2023', expected a date and time like 2024-05-10"),
        (AZURE, "2023-11-16 18:17:03,1.5,2", "ContextTokens is '1.5', expected a whole number"),
        (AZURE, "2023-11-16 18:17:03,1,x", "GeneratedTokens is 'x', expected a number"),
        (AZURE, "2023-11-16 18:17:03,1", "2 columns where the header has 3"),
        (AZURE, "2023-11-16 18:17:03,1,-2", "GeneratedTokens -2 is negative"),
        (VTC, "nan,1,1,1", "timestamp_s is 'nan', expected a number"),
        (VTC, "1,,1,1", "client_id is empty"),
        (BURST, "1,m,99999999999,1", "Request tokens 99999999999 is more than any model takes"),
    ],
)
def test_a_wrong_cell_is_named(tmp_path: Path, header: str, row: str, reason: str) -> None:
    good = "2023-11-16 18:17:03,1,2" if header == AZURE else "1,2,3,4"
    path = csv_file(tmp_path, header, good, row)
    with pytest.raises(TraceError) as refused:
        load_trace(path, VOCABULARY)
    assert str(refused.value).startswith(f"{path}:3: {reason}")
    assert f"CSV with {header.replace(',', ', ')}" in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([call("a", 1, 0, 5, [1])], "1: turn 1 of session 'a' where turn 0 is due"),
        ([call("a", 0, 7, 5, [1])], "1: turn 0 of session 'a' is at 7 ms; stamps count from it, so 0"),
        (
            [call("a", 0, 0, 5, [1]), call("a", 1, 9, 5, [1]), call("a", 2, 8, 5, [1])],
            "3: turn 2 of session 'a' is stamped before the turn that it follows",
        ),
        ([rtp(-1, 5, 5, [])], "1: ts -1 is before the start"),
        ([rtp(1, 1024, 5, [])], "1: 0 bh for 1024 prompt tokens; with 1024 tokens each it takes 1"),
        ([rtp(1, 1024, 5, ["x1"])], "1: bh has 'x1', expected a 64-bit number as a string"),
        ([rtp(1, 5, -5, [])], "1: ol -5 is negative"),
        ([qwen(1, -1, -1.0, 16, [1])], "1: timestamp -1 is before the start"),
        ([qwen(1, -1, 1.0, 16, [1, 2, 3])], "1: 3 hash_ids for 16 prompt tokens; with 16 tokens each it takes 1"),
        ([sharegpt(-1, [1], [1])], "1: arrival_time_ns -1 is before the start"),
        ([sharegpt(1, [1 << 32], [1])], "1: input_tok_ids has an id that is negative or has more than 32 bits"),
        ([sharegpt(1, [1], [1], output_toks=2)], "1: output_tok_ids has 1 ids, output_toks is 2"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, rows: list[dict[str, object]], reason: str) -> None:
    path = json_file(tmp_path, *rows)
    with pytest.raises(TraceError) as refused:
        load_trace(path, VOCABULARY)
    assert str(refused.value).startswith(f"{path}:{reason}")
