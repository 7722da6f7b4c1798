"""The SGLang dialect of emulated engines: legs that meet in a room, pages, events, and what is refused."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest
import zmq
import zmq.asyncio

from vicinal.domain.endpoint import HandOff
from vicinal.domain.events import BlocksStored
from vicinal.domain.ids import EndpointId
from vicinal.enginemodel.profiles import profile
from vicinal.engines.kv_events import Source
from vicinal.engines.registry import SGLANG

FIT = profile("llama-3.1-70b-h100-tp8-vllm")
PROMPT = [5 + i % 900 for i in range(1000)]
BLOCK_BYTES = 16 * 327_680


@pytest.fixture
async def sglang(make_rig: Any) -> Any:
    """Patient enough for a machine that is busy with other things."""
    return await make_rig(dialect="sglang", hand_off=HandOff.BOOTSTRAP, lease_s=1000.0)


def room(number: int, port: int = 8998) -> dict[str, Any]:
    return {"bootstrap_host": "127.0.0.1", "bootstrap_port": port, "bootstrap_room": number}


async def pair(rig: Any, number: int, prompt: Any = None, tokens: int = 4, decode: str = "d1", **more: Any) -> Any:
    body = {"model": "tiny", "prompt": prompt or PROMPT, "max_tokens": tokens} | room(number) | more
    return await asyncio.gather(rig.post("p", "/v1/completions", body), rig.post(decode, "/v1/completions", body))


async def both_there(rig: Any) -> None:
    """Both engines have their leg."""
    async with asyncio.timeout(10.0):
        while not all(rig.fleet.station(EndpointId(name)).driver.legs for name in ("p", "d1")):
            await asyncio.sleep(0.001)


def idle(summary: Any) -> bool:
    engines = summary["engines"].values()
    return not summary["flows"] and not any(e["holds"] or e["legs"] or e["blocks_used"] for e in engines)


@pytest.mark.mission("A7", "B11")
async def test_two_legs_that_leave_together_cost_no_less_than_the_model_says(sglang: Any) -> None:
    (p_status, p_said), (d_status, d_said) = await pair(sglang, 1, tokens=5, decode="d2")
    assert (p_status, d_status) == (200, 200)
    assert p_said["choices"][0]["finish_reason"] == "length"
    assert p_said["usage"] == {
        "prompt_tokens": 1000,
        "total_tokens": 1001,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 0},
        "reasoning_tokens": 0,
    }
    assert d_said["usage"]["completion_tokens"] == 5
    (p,), (d,) = await sglang.stamps("p"), await sglang.stamps("d2")
    assert (p["leg"], d["leg"], d["pulled_tokens"]) == ("prefill", "decode", 1000)
    transfer_s = 20e-6 + 63 * BLOCK_BYTES / (25e9 / 8)
    computed_s = p["finished_s"]
    # The network may stand later than the prefill's stamp already, by the lateness of one wake-up.
    assert d["first_token_s"] - computed_s >= transfer_s + FIT.step_s(1.0, 1000.0) - 1e-9
    summary = await sglang.summary()
    assert summary["kv_bytes"]["cross_rack"] == 63 * BLOCK_BYTES
    assert idle(summary)


async def test_text_is_that_of_one_engine_and_only_what_lacks_moves(sglang: Any) -> None:
    _, (_, first) = await pair(sglang, 1, tokens=12)
    _, (_, again) = await pair(sglang, 2, tokens=12)
    assert first["choices"][0]["text"] == again["choices"][0]["text"]
    d = (await sglang.stamps("d1"))[-1]
    assert (d["cached_tokens"], d["pulled_tokens"]) == (992, 8)
    assert idle(await sglang.summary())


@pytest.mark.parametrize("first", ["p", "d1"])
async def test_whoever_comes_first_waits_for_the_other(sglang: Any, first: str) -> None:
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 3} | room(7)
    early = asyncio.create_task(sglang.post(first, "/v1/completions", body))
    await asyncio.sleep(0.05)
    assert not early.done(), "the prefill leg answers when its KV is gone"
    late = await sglang.post("d1" if first == "p" else "p", "/v1/completions", body)
    assert [(await early)[0], late[0]] == [200, 200]
    assert idle(await sglang.summary())


async def test_nobody_waits_for_ever(make_rig: Any) -> None:
    rig = await make_rig(dialect="sglang", hand_off=HandOff.BOOTSTRAP, lease_s=1.0)
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 3}
    answers = await asyncio.gather(
        rig.post("p", "/v1/completions", body | room(1)), rig.post("d1", "/v1/completions", body | room(2))
    )
    assert [status for status, _ in answers] == [500, 500]
    assert idle(await rig.summary())


async def test_a_room_that_comes_twice_is_refused_loudly(sglang: Any, caplog: pytest.LogCaptureFixture) -> None:
    await pair(sglang, 5)
    with caplog.at_level(logging.ERROR):
        answers = await pair(sglang, 5)
    assert [status for status, _ in answers] == [500, 500]
    assert "bootstrap_room 5 came twice: a real engine crashes of this" in caplog.text
    assert (await sglang.summary())["hand_offs_refused"] == 2


async def test_two_prompts_in_one_room_are_refused_loudly(sglang: Any, caplog: pytest.LogCaptureFixture) -> None:
    body = {"model": "tiny", "max_tokens": 3} | room(9)
    with caplog.at_level(logging.ERROR):
        answers = await asyncio.gather(
            sglang.post("p", "/v1/completions", body | {"prompt": PROMPT}),
            sglang.post("d1", "/v1/completions", body | {"prompt": PROMPT[1:]}),
        )
    assert [status for status, _ in answers] == [500, 500]
    assert "different prompts" in caplog.text
    assert idle(await sglang.summary())


async def test_half_of_a_pair_serves_nothing_without_a_room(sglang: Any) -> None:
    status, said = await sglang.post("d1", "/v1/completions", {"model": "tiny", "prompt": PROMPT, "max_tokens": 3})
    assert (status, said["object"], said["code"]) == (400, "error", 400)
    assert "bootstrap room" in said["message"]
    other = {"model": "tiny", "prompt": PROMPT, "max_tokens": 3} | room(3, port=1)
    assert (await sglang.post("p", "/v1/completions", other))[0] == 500


@pytest.mark.parametrize("gone", ["p", "d1"])
async def test_a_leg_that_is_given_up_breaks_the_other(make_rig: Any, gone: str) -> None:
    sglang = await make_rig(dialect="sglang", hand_off=HandOff.BOOTSTRAP, lease_s=100.0, speed=5.0)
    body = {"model": "tiny", "prompt": [7] * 6000, "max_tokens": 2000} | room(11)
    other = "d1" if gone == "p" else "p"
    leaves = asyncio.create_task(sglang.post(gone, "/v1/completions", body))
    stays = asyncio.create_task(sglang.post(other, "/v1/completions", body))
    await both_there(sglang)
    leaves.cancel()
    status, _ = await asyncio.wait_for(stays, 10)
    assert status == 500 if gone == "p" else status in (200, 500)
    for _ in range(200):
        if idle(await sglang.summary()):
            break
        await asyncio.sleep(0.01)
    assert idle(await sglang.summary())


@pytest.mark.parametrize("gone", ["p", "d1"])
async def test_an_engine_that_dies_breaks_its_partners_leg(make_rig: Any, gone: str) -> None:
    sglang = await make_rig(dialect="sglang", hand_off=HandOff.BOOTSTRAP, lease_s=100.0, speed=5.0)
    body = {"model": "tiny", "prompt": [7] * 6000, "max_tokens": 2000} | room(13)
    other = "d1" if gone == "p" else "p"
    dies = asyncio.create_task(sglang.post(gone, "/v1/completions", body))
    stays = asyncio.create_task(sglang.post(other, "/v1/completions", body))
    await both_there(sglang)
    await sglang.fleet.kill(EndpointId(gone))
    status, _ = await asyncio.wait_for(stays, 10)
    assert status == 500 if gone == "p" else status in (200, 500)
    with pytest.raises(Exception):  # noqa: B017 (its connection broke, in one of many ways)
        await dies
    station = sglang.fleet.station(EndpointId(other))
    for _ in range(200):
        if not station.driver.legs and not station.driver.engine.memory.pool.used:
            break
        await asyncio.sleep(0.01)
    assert not station.driver.engine.memory.pool.used


async def test_a_stream_is_sglangs(sglang: Any) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3} | room(21)
    asked = body | {"stream": True, "stream_options": {"include_usage": True}}
    prefill = asyncio.create_task(sglang.post("p", "/v1/chat/completions", body))
    async with sglang.http.post(sglang.url("d1", "/v1/chat/completions"), json=asked) as answer:
        lines = [line for line in (await answer.read()).split(b"\n\n") if line]
    assert (await prefill)[0] == 200
    assert lines[-1] == b"data: [DONE]"
    events = [msgspec.json.decode(line[6:]) for line in lines[:-1]]
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert set(events[1]["choices"][0]) == {"index", "delta", "logprobs", "finish_reason", "matched_stop"}
    assert events[-1]["usage"]["completion_tokens"] == 3


async def test_its_page_is_read_by_the_dialect(sglang: Any) -> None:
    await pair(sglang, 31)
    await pair(sglang, 32)
    async with sglang.http.get(sglang.url("p", "/metrics")) as answer:
        page = await answer.text()
    report = SGLANG.read_report(page, EndpointId("p"), 1.0)
    assert (report.waiting, report.running, report.kv_usage) == (0, 0, 0.0)
    assert (report.kv_blocks, report.block_tokens) == (2000, 16)
    assert (report.prefix_queries_tokens, report.prefix_hits_tokens) == (2000.0, 992.0)


async def test_its_events_are_read_by_the_dialect(sglang: Any) -> None:
    context = zmq.asyncio.Context()
    sub = context.socket(zmq.SUB)
    sub.setsockopt(zmq.SUBSCRIBE, b"")
    try:
        sub.connect(sglang.endpoints["p"].events_url)
        await asyncio.sleep(0.1)
        await pair(sglang, 41)
        frames = await asyncio.wait_for(sub.recv_multipart(), 10)
        assert msgspec.msgpack.decode(frames[2])[1][0][0] == "BlockStored", "an array"
        assert SGLANG.decode_batch is not None
        batch = SGLANG.decode_batch(*frames, Source(EndpointId("p"), 0))
    finally:
        context.destroy(linger=0)
    assert not batch.ignored
    first = batch.events[0]
    assert isinstance(first, BlocksStored)
    assert first.token_ids == b"".join(token.to_bytes(4, "little") for token in PROMPT[: 16 * len(first.hashes)])


async def test_its_model_is_owned_by_sglang(sglang: Any) -> None:
    async with sglang.http.get(sglang.url("p", "/v1/models")) as answer:
        (card,) = (await answer.json())["data"]
    assert (card["id"], card["owned_by"], card["max_model_len"]) == ("tiny", "sglang", 8192)


async def test_an_engine_without_a_mode_serves_whole_requests(make_rig: Any) -> None:
    rig = await make_rig(dialect="sglang", hands_off=False)
    answer = await rig.complete("d1", PROMPT, 3)
    assert answer["usage"]["completion_tokens"] == 3
    assert "kv_transfer_params" not in answer
