"""Bodies and answers of the vLLM dialect, against plain JSON editing and against recordings of a real engine."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.engines.vllm import requests

FIXTURES = Path(__file__).parent.parent / "fixtures" / "vllm-0.32-cpu"
RECORDED = json.loads((FIXTURES / "handoff_and_errors.json").read_text())
ASKED = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
edited_names = "model prompt stream stream_options max_tokens max_completion_tokens min_tokens kv_transfer_params"
names = st.sampled_from(edited_names.split()) | st.text(max_size=8)
bodies = st.dictionaries(names, values, max_size=9)
layouts = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def prefill_by_json(body: dict[str, Any]) -> dict[str, Any]:
    edited = {k: v for k, v in body.items() if k not in ("stream_options", "min_tokens")}
    edited |= {"stream": False, "max_tokens": 1, "kv_transfer_params": ASKED}
    if "max_completion_tokens" in edited:
        edited["max_completion_tokens"] = 1
    return edited


@given(bodies, layouts)
def test_splicing_the_prefill_leg_equals_editing_the_decoded_body(body, layout) -> None:
    spliced = requests.prefill_body(json.dumps(body, **layout).encode())
    assert json.loads(spliced) == prefill_by_json(body)


@given(bodies, values.filter(bool), layouts, layouts)
def test_the_decode_leg_is_the_body_with_the_params_verbatim(body, params, layout, params_layout) -> None:
    raw = json.dumps(params, **params_layout).encode()
    spliced = requests.decode_body(json.dumps(body, **layout).encode(), raw)
    assert json.loads(spliced) == body | {"kv_transfer_params": params}
    assert b'"kv_transfer_params":' + raw in spliced


@given(st.text(max_size=50))
def test_the_prompt_keeps_its_bytes(text) -> None:
    prompt = json.dumps(text, ensure_ascii=True).encode()
    body = b'{ "model" : "m", "prompt" : ' + prompt + b' , "max_tokens" : 7 }'
    assert prompt in requests.prefill_body(body)
    assert prompt in requests.decode_body(body, b'{"a":1}')


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a":}', b"7"])
def test_what_is_no_object_is_refused(body) -> None:
    with pytest.raises(ValueError):
        requests.prefill_body(body)


@pytest.mark.mission("B11")
def test_a_recorded_prefill_answer() -> None:
    recorded = RECORDED["pd"]["prefill_response"]
    answer = requests.parse_prefill(json.dumps(recorded).encode())
    assert answer.handed_off
    assert json.loads(answer.kv_transfer_params or b"") == recorded["kv_transfer_params"]
    assert answer.usage == requests.Usage(400, 1, 384)


@pytest.mark.mission("B11")
def test_reuse_comes_from_the_params_where_usage_has_no_details() -> None:
    recorded = json.loads(json.dumps(RECORDED["pd"]["prefill_response"]))
    recorded["usage"]["prompt_tokens_details"] = None
    assert requests.parse_prefill(json.dumps(recorded).encode()).usage.cached_tokens == 384


@pytest.mark.parametrize(
    ("finish", "params", "handed_off"),
    [("length", {"x": 1}, True), ("stop", {"x": 1}, False), ("length", None, False), ("stop", None, False)],
)
def test_only_a_leg_cut_by_length_with_params_hands_off(finish, params, handed_off) -> None:
    body = {"choices": [{"finish_reason": finish}], "kv_transfer_params": params}
    assert requests.parse_prefill(json.dumps(body).encode()).handed_off is handed_off


@pytest.mark.parametrize("body", [b"", b"{}", b'{"choices":[]}', b"<html>", b'{"choices":3}'])
def test_an_unreadable_prefill_answer_is_an_error(body) -> None:
    with pytest.raises(ValueError):
        requests.parse_prefill(body)


def test_usage_of_recorded_answers() -> None:
    chat = json.dumps(RECORDED["chat"]["response"]).encode()
    assert requests.whole_usage(chat) == requests.Usage(11, 4, 0)
    stream = (FIXTURES / "chat_stream.sse").read_bytes()
    assert requests.stream_usage(stream[-2048:]) == requests.Usage(11, 3, 0)
    assert requests.stream_is_complete(stream)
    assert not requests.stream_is_complete(stream[:-20])


def test_usage_is_unknown_where_nothing_states_it() -> None:
    assert requests.whole_usage(b"not json") == requests.Usage()
    assert requests.whole_usage(b'{"choices":[]}') == requests.Usage()
    assert (
        requests.stream_usage(b'"}\n\ndata: {"choices":[{"text":"\\"usage\\""}]}\n\ndata: [DONE]\n\n')
        == requests.Usage()
    )


@pytest.mark.parametrize(
    ("case", "status"),
    [("error_too_long", 400), ("error_bad_json_type", 400), ("error_max_tokens_0", 400)],
)
def test_recorded_client_faults(case, status) -> None:
    recorded = RECORDED[case]
    error = requests.classify_error(recorded["status"], json.dumps(recorded["body"]).encode())
    assert (error.status, error.client_fault) == (status, True)
    assert error.message == recorded["body"]["error"]["message"]


@pytest.mark.parametrize("status", [404, 405, 408, 425, 429, 500, 502, 503])
def test_what_another_endpoint_may_do_better_is_the_engines_fault(status) -> None:
    assert not requests.classify_error(status, b'{"error":{"message":"no"}}').client_fault


def test_a_recorded_dead_holder_is_the_engines_fault() -> None:
    recorded = RECORDED["decode_with_dead_holder"]
    error = requests.classify_error(recorded["status"], json.dumps(recorded["body"]).encode())
    assert not error.client_fault


def test_a_500_for_an_over_long_prompt_is_the_clients_fault() -> None:
    body = b'{"object":"error","message":"This model\'s maximum context length is 10 tokens","code":500}'
    assert requests.classify_error(500, body) == requests.EngineError(
        400, True, "This model's maximum context length is 10 tokens"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [(b'{"detail":"Not Found"}', "Not Found"), (b"oops", "oops"), (b'{"error":"x"}', "x"), (b"", "HTTP 500")],
)
def test_error_bodies_of_other_shapes(body, message) -> None:
    assert requests.classify_error(500, body).message == message


def test_error_events_of_a_stream() -> None:
    assert requests.stream_error(b'data: {"id":"x","choices":[]}\n\n') is None
    engine = requests.stream_error(b'data: {"error":{"message":"boom","code":500}}\n\ndata: [DONE]\n\n')
    assert engine == requests.EngineError(500, False, "boom")
    client = requests.stream_error(b'data: {"error": {"message":"bad","code":400}}\n\n')
    assert client == requests.EngineError(400, True, "bad")
    broken = requests.stream_error(b'data: {"error": nonsense\n\n')
    assert broken is not None
    assert not broken.client_fault
