"""A decision record serves as a workload: what was asked, told from what was decided."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.observe.conftest import decision, observation
from tests.workload.traces import VOCABULARY
from vicinal.domain.plan import Leg
from vicinal.kvindex.hashing import chain, coarse
from vicinal.observe.encode import encode_decision, encode_observation
from vicinal.workload.trace import TraceError, TraceFormat, load_trace

EXPECTED = "output length as expected at arrival: no whole answer was observed"


def asked(request_id: str, at_s: float, tokens: int, hashes: Iterable[int] = (), **more: Any) -> bytes:
    fields = {"request_id": request_id, "at_s": at_s, "arrived_s": at_s, "prompt_tokens": tokens, **more}
    return encode_decision(decision(**fields, coarse_hashes=tuple(hashes)))


def ended(request_id: str, at_s: float, output_tokens: int | None, ending: str = "done") -> bytes:
    return encode_observation(observation(request_id=request_id, at_s=at_s, output_tokens=output_tokens, ending=ending))


def record(folder: Path, *files: Iterable[bytes]) -> Path:
    for number, lines in enumerate(files, start=1):
        (folder / f"decisions-{number:08d}.jsonl").write_bytes(b"".join(lines))
    return folder


@pytest.mark.mission("C4")
def test_a_request_is_asked_again_once_with_what_it_really_said(tmp_path: Path) -> None:
    lines = [
        asked("a", 10.0, 1100, [7, 8], tenant_id="t1", priority=3, service="batch", model_id="m1"),
        asked("b", 10.5, 600, [7]),
        asked("a", 11.0, 1100, [7, 8], leg=Leg.DECODE, arrived_s=10.0),
        ended("a", 12.0, 33),
        asked("c", 12.5, 300),
        ended("b", 13.0, 2, ending="cancelled"),
        asked("d", 14.0, 300),
        ended("d", 14.0, None),
        ended("e", 14.5, 5, ending="unknown_model"),
    ]
    trace = load_trace(record(tmp_path, lines), VOCABULARY)
    assert trace.trace_format is TraceFormat.VICINAL
    assert [(a.at_s, a.prompt_tokens, a.output_tokens) for a in trace.arrivals] == [
        (0.0, 1100, 33),
        (0.5, 600, 256),
        (2.5, 300, 256),
        (4.0, 300, 256),
    ]
    assert dict(trace.assumed) == {EXPECTED: 3}
    assert dict(trace.skipped) == {"observed but never decided on, so its prompt is not known": 1}
    first, second, third, fourth = trace.arrivals
    assert (first.tenant, first.priority, first.service, first.model) == ("t1", 3, "batch", "m1")
    assert first.prompt.pieces[0] == second.prompt.pieces[0]
    assert [piece.tokens for piece in first.prompt.pieces] == [512, 512, 76]
    own = [a.prompt.pieces[-1].stream for a in trace.arrivals]
    assert len(set(own)) == 4, "what no hash covers is each request's own"
    assert third.prompt.pieces != fourth.prompt.pieces
    one = load_trace(tmp_path / "decisions-00000001.jsonl", VOCABULARY)
    assert one.arrivals == trace.arrivals
    assert [a.at_s for a in load_trace(tmp_path, VOCABULARY, limit=2).arrivals] == [0.0, 0.5]


@settings(deadline=None, max_examples=60)
@given(
    common=st.integers(0, 3000),
    own=st.tuples(st.integers(1, 1500), st.integers(1, 1500)),
    block_tokens=st.sampled_from([1, 16, 48, 100, 512, 1000, 1024]),
)
def test_prompts_share_what_their_coarse_hashes_say(
    tmp_path_factory: pytest.TempPathFactory, common: int, own: tuple[int, int], block_tokens: int
) -> None:
    """Against the tokens: what is shared, cut down to the last hashed block that they have in common."""
    head = np.arange(common, dtype="<u4")
    prompts = [np.concatenate([head, np.full(n, 9_000_000 + n * 2 + i, dtype="<u4")]) for i, n in enumerate(own)]
    lines = []
    for n, prompt in enumerate(prompts):
        hashes = coarse(chain(prompt.tobytes(), block_tokens), block_tokens)
        lines.append(asked(f"r{n}", float(n), len(prompt), hashes, block_tokens=block_tokens))
    one, other = load_trace(record(tmp_path_factory.mktemp("record"), lines), VOCABULARY).arrivals
    assert [one.prompt_tokens, other.prompt_tokens] == [len(prompt) for prompt in prompts]
    shared_tokens = 0
    for a, b in zip(one.prompt.pieces, other.prompt.pieces, strict=False):
        if a != b:
            break
        shared_tokens += a.tokens
    ends = [-(-end // block_tokens) * block_tokens for end in range(512, 8192, 512)]
    assert shared_tokens == max((end for end in ends if end <= common), default=0)


def test_runs_are_joined_and_torn_lines_counted(tmp_path: Path) -> None:
    first = [asked("a", 3.0, 100), ended("a", 5.0, 7), asked("b", 5.5, 100)[:-30]]
    goes_on = [asked("c", 6.0, 100), ended("c", 8.0, 7)]
    restarted = [asked("a", 1.0, 100), ended("a", 2.0, 9)]
    trace = load_trace(record(tmp_path, [], first, goes_on, restarted), VOCABULARY)
    assert [(a.at_s, a.output_tokens) for a in trace.arrivals] == [(0.0, 7), (3.0, 7), (6.0, 9)]
    assert dict(trace.skipped) == {"last line of a file cut off by a crash": 1}
    assert dict(trace.assumed) == {"arrival after a restart: runs joined end to end": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"kind":"decision","request_id":"x"}\n', "missing required field"),
        (b'{"kind":"other","request_id":"x"}\n', "Invalid value 'other'"),
        (asked("x", 1.0, 1100, [7]), "1 coarse_hashes for 1100 tokens; it takes 2"),
        (asked("x", 1.0, 1100, [7, 8], block_tokens=0), "block_tokens 0, prompt_tokens 1100: no such prompt"),
        (b'{"kind":"decision"\n', "not valid JSON"),
    ],
)
def test_a_line_that_is_none_of_a_record(tmp_path: Path, line: bytes, reason: str) -> None:
    record(tmp_path, [asked("a", 1.0, 9)], [asked("b", 2.0, 9), line])
    with pytest.raises(TraceError) as refused:
        load_trace(tmp_path, VOCABULARY)
    assert str(refused.value).startswith(f"{tmp_path}/decisions-00000002.jsonl:2: ")
    assert reason in str(refused.value)
