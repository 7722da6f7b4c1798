"""Whose fault an error is, against recordings of a real vLLM and the shapes that others have."""

import json
from pathlib import Path

import pytest

from vicinal.engines.errors import EngineError
from vicinal.engines.registry import DIALECTS, OPENAI, SGLANG, VLLM

FIXTURES = Path(__file__).parent.parent / "fixtures" / "vllm-0.32-cpu"
RECORDED = json.loads((FIXTURES / "handoff_and_errors.json").read_text())


@pytest.mark.parametrize(
    ("case", "status"),
    [("error_too_long", 400), ("error_bad_json_type", 400), ("error_max_tokens_0", 400)],
)
def test_recorded_client_faults(case, status) -> None:
    recorded = RECORDED[case]
    error = VLLM.errors.of_answer(recorded["status"], json.dumps(recorded["body"]).encode())
    assert (error.status, error.client_fault) == (status, True)
    assert error.message == recorded["body"]["error"]["message"]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("status", [404, 405, 408, 425, 429, 500, 502, 503])
def test_what_another_endpoint_may_do_better_is_the_engines_fault(name, status) -> None:
    assert not DIALECTS[name].errors.of_answer(status, b'{"error":{"message":"no"}}').client_fault


def test_a_recorded_dead_holder_is_the_engines_fault() -> None:
    recorded = RECORDED["decode_with_dead_holder"]
    error = VLLM.errors.of_answer(recorded["status"], json.dumps(recorded["body"]).encode())
    assert not error.client_fault


@pytest.mark.parametrize(
    ("speaks", "message"),
    [
        (VLLM, "This model's maximum context length is 10 tokens"),
        (SGLANG, "The input (30 tokens) is longer than the model's context length (10 tokens)."),
        (SGLANG, "Requested token count exceeds the model's maximum context length of 10 tokens."),
        (OPENAI, "the request exceeds the available context size"),
    ],
)
def test_a_500_for_an_over_long_prompt_is_the_clients_fault(speaks, message) -> None:
    body = json.dumps({"object": "error", "message": message, "code": 500}).encode()
    assert speaks.errors.of_answer(500, body) == EngineError(400, True, message)


def test_words_of_one_dialect_mean_nothing_in_another() -> None:
    assert not VLLM.errors.of_answer(500, b'{"message":"the request exceeds the available context size"}').client_fault


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"detail":"Not Found"}', "Not Found"),
        (b"oops", "oops"),
        (b'{"error":"x"}', "x"),
        (b"", "HTTP 500"),
        (b"[" * 5000, "[" * 500),
    ],
)
def test_error_bodies_of_other_shapes(body, message) -> None:
    assert VLLM.errors.of_answer(500, body).message == message


def test_error_events_of_a_stream() -> None:
    rules = VLLM.errors
    assert rules.of_event(b'data: {"id":"x","choices":[]}\n\n') is None
    engine = rules.of_event(b'data: {"error":{"message":"boom","code":500}}\n\ndata: [DONE]\n\n')
    assert engine == EngineError(500, False, "boom")
    client = rules.of_event(b'data: {"error": {"message":"bad","code":400}}\n\n')
    assert client == EngineError(400, True, "bad")
    worded = rules.of_event(b'data: {"error": {"message":"bad","type":"invalid_request_error","code":"x"}}\n\n')
    assert worded == EngineError(400, True, "bad")
    broken = rules.of_event(b'data: {"error": nonsense\n\n')
    assert broken is not None
    assert not broken.client_fault
