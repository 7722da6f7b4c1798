"""Many engines at once: clients that leave, engines that die, addresses that are taken, and time that is shared."""

import asyncio
import itertools
import json
import socket
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
import uvloop

from tests.ports import free_port
from vicinal.clock import ModelClock
from vicinal.domain.endpoint import Role
from vicinal.domain.ids import EndpointId
from vicinal.emulator.clock import ClockDebt
from vicinal.emulator.host import EmulatedFleet, PortInUseError
from vicinal.enginemodel.profiles import profile
from vicinal.topology.tree import TreeNetwork, tree_topology

from .conftest import Rig, make_endpoint

FIT = profile("llama-3.1-70b-h100-tp8-vllm")
PROMPT = list(range(5, 905))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_blocks(rig: Any, stream: bool) -> None:
    engine = rig.fleet.station(EndpointId("p")).driver.engine
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 7000, "stream": stream}
    asked = asyncio.create_task(rig.http.post(rig.url("p", "/v1/completions"), json=body))
    while not engine.running:
        await asyncio.sleep(0.001)
    if stream:
        answer = await asked
        await answer.content.readline()
        answer.close()
    else:
        asked.cancel()
    while not engine.idle:
        await asyncio.sleep(0.001)
    assert engine.memory.pool.used == 0
    assert (await rig.summary())["engines"]["p"]["legs"] == 0
    assert await rig.stamps("p") == []
    async with rig.http.get(rig.url("p", "/metrics")) as answer:
        assert 'finished_reason="abort",model_name="tiny"} 1.0' in await answer.text()


async def test_a_client_that_leaves_in_mid_transfer_frees_both_sides(make_rig: Any) -> None:
    rig = await make_rig(nic_bytes_per_s=1e7)
    params = await rig.prefill("p", PROMPT)
    body = {"model": "tiny", "prompt": PROMPT, "kv_transfer_params": params}
    asked = asyncio.create_task(rig.http.post(rig.url("d2", "/v1/completions"), json=body))
    while not (await rig.summary())["flows"]:
        pass
    asked.cancel()
    engines = [rig.fleet.station(EndpointId(name)).driver.engine for name in ("p", "d2")]
    while not all(engine.idle for engine in engines):
        await asyncio.sleep(0.001)
    assert [engine.memory.pool.used for engine in engines] == [0, 0]
    assert (await rig.summary())["flows"] == 0


async def test_a_leg_may_be_cancelled_in_the_very_catching_up_that_admits_it(rig: Any) -> None:
    """The engine is in mid-step when the leg comes, and nobody looks at it again before the client leaves."""
    params = await rig.prefill("p", PROMPT)
    station = rig.fleet.station(EndpointId("d1"))
    busy = asyncio.create_task(rig.complete("d1", [9] * 8000, 1))
    while not station.driver.engine.running:
        await asyncio.sleep(0)
    body = {"prompt": PROMPT, "max_tokens": 5, "kv_transfer_params": params}
    order = station.orders.completion(json.dumps(body).encode())
    leg = station.begin(order, "cmpl-x", "x")
    step_ends_s = station.driver.engine.next_event_s()
    assert step_ends_s is not None
    while rig.fleet.clock.now() <= step_ends_s:
        pass  # the event loop has no turn meanwhile
    station.drop(leg)
    await busy
    assert station.driver.engine.idle
    assert rig.fleet.station(EndpointId("p")).driver.engine.idle
    assert (await rig.summary())["flows"] == 0


async def test_a_dead_engine_refuses_connections_and_breaks_those_it_had(rig: Any) -> None:
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 7000, "stream": True}
    answer = await rig.http.post(rig.url("p", "/v1/completions"), json=body)
    await answer.content.readline()
    await rig.fleet.kill(EndpointId("p"))
    with pytest.raises(aiohttp.ClientError):
        await answer.read()
    with pytest.raises(aiohttp.ClientConnectionError):
        await rig.complete("p", PROMPT)
    await rig.fleet.restart(EndpointId("p"))
    assert (await rig.complete("p", PROMPT))["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    with pytest.raises(ValueError, match="is running"):
        await rig.fleet.restart(EndpointId("p"))


@pytest.mark.parametrize("which", ["url", "events_url", "replay_url"])
async def test_a_port_in_use_is_named(make_rig: Any, codec: Any, which: str) -> None:
    rig = await make_rig()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        scheme = "http" if which == "url" else "tcp"
        url = f"{scheme}://127.0.0.1:{port}"
        fresh = {
            k: v for k, v in (("url", "http://127.0.0.1:{}"), ("events_url", ""), ("replay_url", "")) if k != which
        }
        endpoint = replace(rig.endpoints["p"], **{k: v.format(free_port()) for k, v in fresh.items()}, **{which: url})
        fleet = EmulatedFleet([endpoint], tree_topology([endpoint], TreeNetwork()), 1.0, codec)
        with pytest.raises(PortInUseError, match=f"{port}.* of endpoint p"):
            await fleet.start()


@pytest.mark.mission("B11")
async def test_concurrent_requests_keep_the_models_time(rig: Any) -> None:
    """Two prompts at once share steps; their stamps add up to the model's, whatever the wall clock did."""
    await asyncio.gather(*(rig.complete("d1", [i, *PROMPT], 20, f"r{i}") for i in range(4)))
    stamps = await rig.stamps("d1")
    assert len(stamps) == 4
    for s in stamps:
        assert s["arrived_s"] <= s["started_s"] < s["first_token_s"] < s["finished_s"]
    first, last = min(s["started_s"] for s in stamps), max(s["first_token_s"] for s in stamps)
    # Prompts that share a step share its base, so each has only its own tokens for certain.
    own_s = FIT.prefill_s(901.0, 0.0) - FIT.prefill_base_s
    assert last - first >= FIT.prefill_base_s + 4 * own_s - 1e-9
    assert await rig.stamps("d1") == []


async def test_equal_prompts_of_unequal_salt_share_nothing_and_sequences_are_limited(make_rig: Any) -> None:
    rig = await make_rig(sequences_max=1)
    await asyncio.gather(*(rig.complete("p", PROMPT, 3, f"r{i}", cache_salt=str(i)) for i in range(3)))
    stamps = sorted(await rig.stamps("p"), key=lambda s: s["started_s"])
    assert [s["cached_tokens"] for s in stamps] == [0, 0, 0]
    assert all(b["started_s"] >= a["finished_s"] for a, b in itertools.pairwise(stamps))


async def test_a_body_of_many_megabytes_is_read(rig: Any) -> None:
    status, answer = await rig.post("p", "/v1/completions", b'{"prompt": "' + b"cache " * 4_000_000 + b'"}')
    assert status == 400
    assert answer["error"]["param"] == "input_tokens"


async def test_clocks_of_one_origin_agree() -> None:
    a = ModelClock(50.0)
    b = ModelClock(50.0, a.origin_s)
    first, between, last = a.now(), b.now(), a.now()
    assert first <= between <= last
    with pytest.raises(ValueError, match="above 0"):
        ModelClock(0.0)


def test_debt_is_lateness_over_the_run() -> None:
    debt = ClockDebt()
    assert debt.ratio is None
    debt.begin(100.0)
    debt.woke(104.0, 103.0)
    debt.woke(108.0, 109.0)
    debt.woke(110.0, None)
    assert debt.ratio == pytest.approx(0.1)


async def test_roles_do_not_bind_the_emulator(rig: Any) -> None:
    """As with vLLM, any engine serves any leg; roles are the scheduler's business."""
    assert rig.endpoints["d1"].role is Role.DECODE
    params = await rig.prefill("d1", PROMPT)
    answer = await rig.complete("p", PROMPT, 2, kv_transfer_params=params)
    assert answer["usage"]["completion_tokens"] == 2


@pytest.mark.mission("B11")
async def test_tokens_are_gathered_into_few_writes_and_the_debt_is_told(rig: Any) -> None:
    """200 tokens take 2 s of model time, 40 ms of wall time: eight emit intervals, and a few writes more."""
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 200, "stream": True}
    async with rig.http.post(rig.url("p", "/v1/completions"), json=body) as answer:
        writes = [chunk async for chunk in answer.content.iter_any()]
    assert b"".join(writes).count(b"data: ") == 201
    assert len(writes) < 50
    debt = (await rig.summary())["clock_debt"]
    assert debt["worst"] >= debt["mean"] >= 0.0
    assert debt["valid"] == (debt["worst"] <= 0.05)
    assert debt["network"] is None


def test_the_fleet_runs_under_uvloop(codec: Any) -> None:
    async def one_hand_off() -> dict[str, Any]:
        endpoints = [make_endpoint("p", "A", Role.PREFILL), make_endpoint("d", "A", Role.DECODE)]
        fleet = EmulatedFleet(endpoints, tree_topology(endpoints, TreeNetwork()), 50.0, codec)
        await fleet.start()
        async with aiohttp.ClientSession() as http:
            rig = Rig(fleet, {str(e.id): e for e in endpoints}, http)
            answer = await rig.complete("d", PROMPT, 3, kv_transfer_params=await rig.prefill("p", PROMPT))
        await fleet.stop()
        return dict(answer["usage"])

    assert uvloop.run(one_hand_off())["completion_tokens"] == 3
