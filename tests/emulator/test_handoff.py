"""Prefill here, decode there: what is returned, what moves, how long it takes, and what happens to bad parameters."""

import asyncio
import logging
from typing import Any

import pytest

from vicinal.domain.ids import EndpointId
from vicinal.enginemodel.profiles import profile

FIT = profile("llama-3.1-70b-h100-tp8-vllm")
PROMPT = [5 + i % 900 for i in range(1000)]
BLOCK_BYTES = 16 * 327_680


@pytest.mark.mission("A7", "B11")
async def test_a_hand_off_end_to_end_costs_exactly_what_the_model_says(rig: Any) -> None:
    params = await rig.prefill("p", PROMPT, "one")
    assert params["remote_num_tokens"] == 1000
    assert [len(ids) for ids in params["remote_block_ids"]] == [63]
    answer = await rig.complete("d2", PROMPT, 5, "one", kv_transfer_params=params)
    assert answer["usage"]["completion_tokens"] == 5

    (p,) = await rig.stamps("p")
    (d,) = await rig.stamps("d2")
    assert (p["leg"], p["request_id"], p["endpoint"], p["output_tokens"]) == ("prefill", "one", "p", 1)
    assert p["finished_s"] - p["arrived_s"] == pytest.approx(FIT.prefill_s(1000.0, 0.0), abs=1e-9)
    # Across racks the uplink is the narrowest link: one or two endpoints per rack, oversubscribed 8:1.
    narrow = 25e9 / 8
    transfer_s = 20e-6 + 63 * BLOCK_BYTES / narrow
    assert d["leg"] == "decode"
    assert d["pulled_tokens"] == 1000
    assert d["first_token_s"] - d["arrived_s"] == pytest.approx(transfer_s + FIT.step_s(1.0, 1000.0), abs=1e-9)
    steps_s = sum(FIT.step_s(1.0, 1000.0 + k) for k in range(5))
    assert d["finished_s"] - d["arrived_s"] == pytest.approx(transfer_s + steps_s, abs=1e-9)
    summary = await rig.summary()
    assert summary["kv_bytes"]["cross_rack"] == 63 * BLOCK_BYTES
    assert summary["kv_bytes"]["same_rack"] == 0
    assert summary["flows"] == 0
    assert [e["holds"] + e["legs"] + e["blocks_used"] for e in summary["engines"].values()] == [0, 0, 0]


@pytest.mark.mission("A7")
async def test_the_decode_side_pulls_only_what_it_lacks(rig: Any) -> None:
    await rig.complete("d1", PROMPT[:400], 1)
    params = await rig.prefill("p", PROMPT)
    await rig.complete("d1", PROMPT, 1, kv_transfer_params=params)
    d = (await rig.stamps("d1"))[-1]
    assert (d["cached_tokens"], d["pulled_tokens"]) == (400, 600)
    assert (await rig.summary())["kv_bytes"]["same_rack"] == (63 - 25) * BLOCK_BYTES
    after = await rig.complete("d1", [*PROMPT, 7, 8, 9], 1)
    assert after["usage"]["prompt_tokens_details"]["cached_tokens"] == 992


async def test_disaggregated_text_equals_aggregated_text(rig: Any) -> None:
    whole = await rig.complete("d1", PROMPT, 12)
    params = await rig.prefill("p", PROMPT)
    apart = await rig.complete("d2", PROMPT, 12, kv_transfer_params=params)
    assert whole["choices"][0]["text"] == apart["choices"][0]["text"]
    other = await rig.complete("d1", [*PROMPT[:-1], 6], 12)
    assert other["choices"][0]["text"] != whole["choices"][0]["text"]


async def test_a_decode_leg_repeats_the_prefill_sides_cached_tokens(rig: Any) -> None:
    await rig.prefill("p", PROMPT)
    params = await rig.prefill("p", PROMPT)
    assert params["remote_prefill_cached_tokens"] == 992
    answer = await rig.complete("d1", PROMPT, 2, kv_transfer_params=params)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 992
    assert (await rig.stamps("d1"))[0]["cached_tokens"] == 0


@pytest.mark.parametrize("case", ["used twice", "longer prompt", "other prompt", "made up"])
async def test_bad_parameters_are_refused_loudly(rig: Any, caplog: Any, case: str) -> None:
    params = await rig.prefill("p", PROMPT)
    prompt = {"longer prompt": [*PROMPT, 5], "other prompt": [*PROMPT[:-1], 6]}.get(case, PROMPT)
    if case == "used twice":
        await rig.complete("d1", PROMPT, 1, kv_transfer_params=params)
    if case == "made up":
        params = params | {"remote_request_id": "nobody"}
    with caplog.at_level(logging.ERROR):
        body = {"model": "tiny", "prompt": prompt, "kv_transfer_params": params}
        status, answer = await rig.post("d1", "/v1/completions", body)
    assert status == 500
    assert answer["error"] == {
        "message": "Internal server error",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
    assert "refused" in caplog.text
    assert (await rig.summary())["hand_offs_refused"] == 1


async def test_a_lease_that_runs_out_frees_the_blocks(make_rig: Any) -> None:
    rig = await make_rig(lease_s=2.0)
    params = await rig.prefill("p", PROMPT)
    engine = rig.fleet.station(EndpointId("p")).driver.engine
    assert engine.memory.pool.used == 63
    while engine.memory.pool.used:  # the lease ends by itself; nobody asks the engine anything
        await asyncio.sleep(0.005)
    body = {"model": "tiny", "prompt": PROMPT, "kv_transfer_params": params}
    status, _ = await rig.post("d1", "/v1/completions", body)
    assert status == 500
    assert (await rig.summary())["engines"]["p"]["leases_expired"] == 1


async def test_a_dead_holder_costs_seconds_and_a_500(rig: Any) -> None:
    params = await rig.prefill("p", PROMPT)
    await rig.fleet.kill(EndpointId("p"))
    before_s = rig.fleet.clock.now()
    body = {"model": "tiny", "prompt": PROMPT, "kv_transfer_params": params}
    status, _ = await rig.post("d1", "/v1/completions", body)
    assert status == 500
    assert rig.fleet.clock.now() - before_s >= 7.0


async def test_a_holder_that_dies_in_mid_transfer_breaks_the_decode_leg(make_rig: Any) -> None:
    rig = await make_rig(nic_bytes_per_s=1e7)  # half a minute of model time for this prompt
    params = await rig.prefill("p", PROMPT)
    body = {"model": "tiny", "prompt": PROMPT, "kv_transfer_params": params}
    asked = asyncio.create_task(rig.post("d1", "/v1/completions", body))
    network = rig.fleet._transfers.network
    while not len(network):
        await asyncio.sleep(0.001)
    await rig.fleet.kill(EndpointId("p"))
    status, _ = await asked
    assert status == 500
    assert len(network) == 0
    assert rig.fleet.station(EndpointId("d1")).driver.engine.idle


async def test_the_end_of_a_stream_tells_of_a_broken_hand_off(rig: Any) -> None:
    """A stream's head is sent before the engine looks at the request, so what goes wrong then is an event."""
    body = {"model": "tiny", "prompt": PROMPT, "stream": True, "kv_transfer_params": {"do_remote_prefill": True}}
    async with rig.http.post(rig.url("d1", "/v1/completions"), json=body) as answer:
        assert answer.status == 200
        text = await answer.text()
    assert text.startswith('data: {"error":{"message":"Internal server error"')
    assert text.endswith("data: [DONE]\n\n")
