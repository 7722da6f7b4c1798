"""Counting streams, and telling an answer as one."""

import json
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from vicinal.engines.answers import Usage
from vicinal.engines.registry import VLLM
from vicinal.gateway.as_stream import as_stream
from vicinal.gateway.tally import StreamTally

RECORDED = (Path(__file__).parent.parent / "fixtures" / "vllm-0.32-cpu" / "chat_stream.sse").read_bytes()


def tally_of(stream: bytes, cuts: list[int]) -> StreamTally:
    tally = StreamTally(VLLM.errors)
    places = [0, *sorted(cuts), len(stream)]
    for start, end in pairwise(places):
        if start < end:
            tally.add(stream[start:end])
    return tally


@given(st.lists(st.integers(0, len(RECORDED)), max_size=300))
def test_a_recorded_stream_is_counted_however_it_is_cut(cuts) -> None:
    tally = tally_of(RECORDED, cuts)
    assert tally.complete
    assert tally.usage == Usage(11, 3, 0)
    assert tally.tokens(chat=True) == 4  # the events: three deltas and the usage


@given(st.lists(st.text(min_size=1), max_size=8), st.data())
def test_events_are_counted_whatever_their_text(texts, data) -> None:
    stream = b"".join(b"data: %b\n\n" % json.dumps({"t": text}).encode() for text in texts) + b"data: [DONE]\n\n"
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=len(stream)))
    assert tally_of(stream, cuts).tokens(chat=False) == len(texts)


def test_a_stream_without_its_end_is_not_complete() -> None:
    assert not tally_of(RECORDED[: -len(b"data: [DONE]\n\n")], []).complete


def events_of(stream: bytes) -> list:
    lines = stream.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_a_tool_call_becomes_deltas_with_an_index() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    opening, closing = events_of(as_stream(json.dumps(answer).encode(), chat=True, include_usage=False))
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert closing["choices"][0]["delta"] == {"tool_calls": [call | {"index": 0}]}
    assert closing["choices"][0]["finish_reason"] == "tool_calls"
    assert closing["object"] == "chat.completion.chunk"


def test_completions_keep_their_choice() -> None:
    choice = {"index": 0, "text": "Hi", "finish_reason": "stop"}
    answer = {"id": "x", "object": "text_completion", "choices": [choice], "usage": {"prompt_tokens": 3}}
    events = events_of(as_stream(json.dumps(answer).encode(), chat=False, include_usage=True))
    assert [event["choices"] for event in events] == [[choice], []]
    assert events[1]["usage"] == {"prompt_tokens": 3}
