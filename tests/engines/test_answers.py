"""Usage and ends of answers, recorded from a real vLLM."""

import json
from pathlib import Path

from vicinal.engines.answers import Usage, stream_is_complete, stream_usage, whole_usage

FIXTURES = Path(__file__).parent.parent / "fixtures" / "vllm-0.32-cpu"
RECORDED = json.loads((FIXTURES / "handoff_and_errors.json").read_text())


def test_usage_of_recorded_answers() -> None:
    chat = json.dumps(RECORDED["chat"]["response"]).encode()
    assert whole_usage(chat) == Usage(11, 4, 0)
    stream = (FIXTURES / "chat_stream.sse").read_bytes()
    assert stream_usage(stream[-2048:]) == Usage(11, 3, 0)
    assert stream_is_complete(stream)
    assert not stream_is_complete(stream[:-20])


def test_usage_is_unknown_where_nothing_states_it() -> None:
    assert whole_usage(b"not json") == Usage()
    assert whole_usage(b'{"choices":[]}') == Usage()
    assert stream_usage(b'"}\n\ndata: {"choices":[{"text":"\\"usage\\""}]}\n\ndata: [DONE]\n\n') == Usage()
