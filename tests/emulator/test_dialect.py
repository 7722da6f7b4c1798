"""The emulator's answers have the shapes that were recorded from vLLM 0.32."""

import json
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures" / "vllm-0.32-cpu"
RECORDED = json.loads((FIXTURES / "handoff_and_errors.json").read_text())
PROMPT = list(range(5, 405))


def shape(value: Any) -> Any:
    """Keys in order and whether a value is null, an object, a list or something else."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def keys(value: Any) -> Any:
    """Keys only, in order: for places where a value may be null or not."""
    if isinstance(value, dict):
        return [(key, keys(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [keys(value[0])] if value else []
    return None


def events(stream: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.mission("B10")
async def test_hand_off_answers_equal_the_recording_in_every_key(rig: Any) -> None:
    asked = RECORDED["pd"]["prefill_request"] | {"prompt": PROMPT}
    _, prefill = await rig.post("p", "/v1/completions", asked, "pd-1")
    recorded = RECORDED["pd"]["prefill_response"]
    assert keys(prefill) == keys(recorded)
    assert list(prefill["kv_transfer_params"]) == list(recorded["kv_transfer_params"])
    assert prefill["id"] == recorded["id"] == "cmpl-pd-1"
    asked = RECORDED["pd"]["decode_request"] | {"prompt": PROMPT, "kv_transfer_params": prefill["kv_transfer_params"]}
    _, decode = await rig.post("d1", "/v1/completions", asked, "pd-1")
    assert keys(decode) == keys(RECORDED["pd"]["decode_response"])
    assert decode["kv_transfer_params"] is None
    assert decode["usage"]["total_tokens"] == 412


async def test_a_chat_equals_the_recording(rig: Any, codec: Any) -> None:
    messages = [{"role": "user", "content": "Where is the cache?"}]
    _, answer = await rig.post("p", "/v1/chat/completions", {"model": "tiny", "messages": messages, "max_tokens": 4})
    assert shape(answer) == shape(RECORDED["chat"]["response"])
    assert answer["usage"] == RECORDED["chat"]["response"]["usage"]
    _, tokens = await rig.post("p", "/tokenize", {"model": "tiny", "messages": messages})
    assert tokens == RECORDED["tokenize"]["response"] | {"max_model_len": 8192}
    _, plain = await rig.post("p", "/tokenize", {"prompt": "cache"})
    assert plain["tokens"] == codec.encode("cache")


async def test_a_chat_stream_equals_the_recording(rig: Any) -> None:
    recorded = events((FIXTURES / "chat_stream.sse").read_text())
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Where is the cache?"}],
        "max_completion_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with rig.http.post(rig.url("p", "/v1/chat/completions"), json=body) as answer:
        assert answer.content_type == "text/event-stream"
        streamed = events(await answer.text())
    assert [shape(event) for event in streamed] == [shape(event) for event in recorded]
    assert streamed[-1]["usage"] == recorded[-1]["usage"]
    text = "".join(e["choices"][0]["delta"]["content"] for e in streamed[:-1])
    _, whole = await rig.post("p", "/v1/chat/completions", body | {"stream": False})
    assert whole["choices"][0]["message"]["content"] == text


async def test_a_completion_stream_has_an_event_per_token_and_no_usage_unless_asked(rig: Any) -> None:
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 30, "stream": True}
    async with rig.http.post(rig.url("p", "/v1/completions"), json=body) as answer:
        streamed = events(await answer.text())
    assert len(streamed) == 30
    assert [e["choices"][0]["finish_reason"] for e in streamed] == [None] * 29 + ["length"]
    whole = await rig.complete("p", PROMPT, 30)
    assert "".join(e["choices"][0]["text"] for e in streamed) == whole["choices"][0]["text"]
    assert all("usage" not in event for event in streamed)


async def test_the_next_turn_of_a_chat_finds_what_was_generated(rig: Any) -> None:
    messages = [{"role": "user", "content": "Where is the cache? " * 8}]
    _, first = await rig.post("p", "/v1/chat/completions", {"messages": messages, "max_tokens": 40})
    reply = first["choices"][0]["message"]
    messages += [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": "And then?"}]
    _, second = await rig.post("p", "/v1/chat/completions", {"messages": messages, "max_tokens": 2})
    computed = first["usage"]["total_tokens"] - 1
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == computed // 16 * 16


async def test_models(rig: Any) -> None:
    recorded = json.loads((FIXTURES / "models.json").read_text())
    async with rig.http.get(rig.url("p", "/v1/models")) as answer:
        models = await answer.json()
    assert shape(models) == shape(recorded)
    assert models["data"][0]["id"] == "tiny"
    async with rig.http.get(rig.url("p", "/health")) as answer:
        assert answer.status == 200


async def test_errors_equal_the_recordings(rig: Any) -> None:
    cases = {
        "error_unknown_model": {"model": "nope", "prompt": "x"},
        "error_max_tokens_0": {"model": "tiny", "prompt": "x", "max_tokens": 0},
    }
    for name, body in cases.items():
        assert await rig.post("p", "/v1/completions", body) == (RECORDED[name]["status"], RECORDED[name]["body"])
    status, body = await rig.post("p", "/v1/completions", {"model": "tiny", "prompt": [5] * 9000})
    recorded = RECORDED["error_too_long"]["body"]["error"]["message"]
    assert status == 400
    assert body["error"]["message"] == recorded.replace("2048", "8192").replace("3000", "9000")
    assert (body["error"]["param"], body["error"]["type"]) == ("input_tokens", "BadRequestError")
    status, body = await rig.post("p", "/v1/chat/completions", {"model": "tiny", "messages": "hi"})
    assert status == RECORDED["error_bad_json_type"]["status"]
    assert {k: v for k, v in body["error"].items() if k != "message"} == {
        k: v for k, v in RECORDED["error_bad_json_type"]["body"]["error"].items() if k != "message"
    }


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("completions", b'{"prompt": ', "body"),
        ("completions", {"model": "tiny"}, "body.prompt"),
        ("completions", {"prompt": [1, -2]}, "body.prompt[1]"),
        ("completions", {"prompt": [1], "max_tokens": "many"}, "body.max_tokens"),
        ("completions", {"prompt": []}, "prompt"),
        ("completions", {"prompt": ["one", "two"]}, "prompt"),
        ("completions", {"prompt": [1, "two"]}, "prompt"),
        ("completions", {"prompt": [5] * 8000, "max_tokens": 400}, "input_tokens"),
        ("completions", {"prompt": [5], "n": 2}, "n"),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ("chat/completions", {"messages": [], "max_completion_tokens": -1}, "max_completion_tokens"),
    ],
)
async def test_bad_bodies_name_the_field(rig: Any, path: str, body: Any, param: str) -> None:
    status, answer = await rig.post("p", f"/v1/{path}", body)
    assert status == 400
    assert answer["error"]["param"].startswith(param)
    assert answer["error"]["code"] == 400
    assert (await rig.summary())["engines"]["p"]["legs"] == 0


@pytest.mark.parametrize(
    ("path", "body", "tokens", "reason"),
    [
        ("completions", {"prompt": "cache"}, 16, "length"),
        ("chat/completions", {"messages": [{"role": "user", "content": "cache"}]}, 256, "stop"),
    ],
)
async def test_length_of_an_answer_when_nothing_limits_it(
    rig: Any, path: str, body: Any, tokens: int, reason: str
) -> None:
    _, answer = await rig.post("p", f"/v1/{path}", body)
    assert answer["usage"]["completion_tokens"] == tokens
    assert answer["choices"][0]["finish_reason"] == reason


async def test_a_second_request_reports_cached_tokens(rig: Any) -> None:
    first = await rig.complete("p", PROMPT)
    second = await rig.complete("p", PROMPT)
    salted = await rig.complete("p", PROMPT, cache_salt="tenantA")
    cached = [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in (first, second, salted)]
    assert cached == [0, 384, 0]


async def test_a_prompt_may_be_text_or_ids_or_a_batch_of_one(rig: Any, codec: Any) -> None:
    text = "which endpoint holds the cache of this request"
    ids = codec.encode(text)
    answers = [await rig.complete("p", prompt) for prompt in (text, ids, [text], [ids])]
    assert len({answer["choices"][0]["text"] for answer in answers}) == 1
    assert {answer["usage"]["prompt_tokens"] for answer in answers} == {len(ids)}
    seeded = await rig.complete("p", text, seed=1)
    assert seeded["choices"][0]["text"] != answers[0]["choices"][0]["text"]
