"""The live system over emulated engines in one loop: real sockets, real scheduler, engines that can be killed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import openai
import pytest

from tests.ports import free_row
from tests.up.test_up import PORTS
from vicinal.clock import ModelClock
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.domain.ids import EndpointId
from vicinal.emulator.host import EmulatedFleet
from vicinal.observe.lines import ObservationRecord
from vicinal.observe.read import records
from vicinal.scheduler.validate import validate
from vicinal.wiring.engines import make_fleet
from vicinal.wiring.live import LiveSystem

SPEED = 20.0


class World:
    """A cluster, its engines and its gateway."""

    def __init__(self, config: Config, engines: EmulatedFleet, live: LiveSystem) -> None:
        self.config = config
        self.engines = engines
        self.live = live
        self.url = f"http://127.0.0.1:{config.server.port}"

    async def until_idle(self) -> None:
        """Nothing is live, here or on any engine, and nothing is reserved."""
        async with asyncio.timeout(20.0):
            while self.live.scheduler.requests or self.live.gateway.relay.under_way or self.busy():
                await asyncio.sleep(0.01)
        validate(self.live.scheduler)
        ledger = self.live.scheduler.state.ledger
        assert not ledger.prefills and not ledger.decodes and not ledger.transfers and not ledger.blocks  # noqa: PT018

    def busy(self) -> int:
        return sum(engine["legs"] for engine in self.engines.summary()["engines"].values())


@contextlib.asynccontextmanager
async def world(
    folder: Path,
    policy: str = "cost",
    change: Callable[[Config], Config] = lambda config: config,
    capture: Path | None = None,
) -> AsyncIterator[World]:
    config = change(
        default_cluster(free_row(PORTS), policy=policy, speed=SPEED, record_directory=str(folder / "record"))
    )
    clock = ModelClock(SPEED)
    engines = make_fleet(config, clock.origin_s)
    await engines.start()
    live = LiveSystem(config, clock, capture)
    try:
        await live.start()
        async with asyncio.timeout(20.0):
            while live.reported() < len(live.fleet):
                await asyncio.sleep(0.01)
        yield World(config, engines, live)
    finally:
        await live.stop()
        await engines.stop()


def body(tokens: int = 4000, output: int = 50, seed: int = 0, **more: object) -> dict[str, object]:
    prompt = [2 + (seed * 7919 + n * 31) % 1000 for n in range(tokens)]
    return {"model": "llama-3.1-70b", "prompt": prompt, "max_tokens": output, "ignore_eos": True, **more}


@pytest.mark.mission("B11", "A7")
async def test_disaggregated_text_equals_what_one_engine_says(tmp_path: Path) -> None:
    async with world(tmp_path, "least_loaded") as w, aiohttp.ClientSession() as http:
        for seed in range(3):
            async with http.post(f"{w.url}/v1/completions", json=body(seed=seed)) as answer:
                split = (await answer.json())["choices"][0]["text"]
            async with http.post(f"{w.live.fleet[0].url}/v1/completions", json=body(seed=seed)) as answer:
                assert split == (await answer.json())["choices"][0]["text"]
        assert w.live.gateway.counters.handoffs == 3
        await w.until_idle()


async def test_the_openai_client_streams_a_chat_and_the_next_turn_finds_its_cache(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        client = openai.AsyncOpenAI(base_url=f"{w.url}/v1", api_key="none", max_retries=0)
        messages = [{"role": "user", "content": "Where is the cache? " * 60}]
        said = ""
        async for chunk in await client.chat.completions.create(
            model="llama-3.1-70b", messages=messages, max_tokens=40, stream=True
        ):
            said += chunk.choices[0].delta.content or "" if chunk.choices else ""
        assert len(said) > 40
        turn = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": "And now?"}]
        again = await client.chat.completions.create(model="llama-3.1-70b", messages=turn, max_tokens=5)
        assert again.usage is not None
        assert again.usage.prompt_tokens_details is not None
        assert again.usage.prompt_tokens_details.cached_tokens > 300
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.chat.completions.create(model="gpt-2", messages=messages)
        await client.close()
        await w.until_idle()


@pytest.mark.mission("B12")
async def test_an_engine_that_dies_while_prefilling_loses_no_request(tmp_path: Path) -> None:
    async with world(tmp_path, "prefill_first") as w, aiohttp.ClientSession() as http:
        asked = [asyncio.ensure_future(_answer(http, w, body(60_000, 5, seed=seed, stream=True))) for seed in range(4)]
        async with asyncio.timeout(10.0):
            while not (busy := _busiest(w, "p")):
                await asyncio.sleep(0.005)
        await w.engines.kill(EndpointId(busy))
        answers = await asyncio.gather(*asked)
        assert [status for status, _ in answers] == [200] * 4
        assert all("[DONE]" in text and "error" not in text for _, text in answers)
        await w.until_idle()
    attempts = [line.attempts for line in _observations(tmp_path)]
    assert max(attempts) == 2
    assert len(attempts) == 4


@pytest.mark.mission("B12")
async def test_an_engine_that_dies_while_answering_ends_the_stream_with_an_error(tmp_path: Path) -> None:
    async with world(tmp_path, "least_loaded") as w, aiohttp.ClientSession() as http:
        async with http.post(f"{w.url}/v1/completions", json=body(200, 4000, stream=True)) as answer:
            assert answer.status == 200
            assert await answer.content.readany()
            await w.engines.kill(EndpointId(_busiest(w, "d")))
            rest = (await answer.content.read()).decode()
        assert '"code":"stream_broken"' in rest.replace(" ", "")
        assert "[DONE]" not in rest
        await w.until_idle()


async def test_a_client_that_leaves_frees_its_engines(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        async with http.post(f"{w.url}/v1/completions", json=body(200, 100_000, stream=True)) as answer:
            assert await answer.content.readany()
            assert w.busy() == 1
        await w.until_idle()
    assert [line.ending for line in _observations(tmp_path)] == ["cancelled"]


@pytest.mark.mission("B12", "B16")
async def test_a_restarted_engine_is_known_to_be_empty(tmp_path: Path) -> None:
    async with world(tmp_path, "least_loaded") as w, aiohttp.ClientSession() as http:
        async with http.post(f"{w.url}/v1/completions", json=body()) as answer:
            assert answer.status == 200
        index, state = w.live.scheduler.state.index, w.live.scheduler.state
        async with asyncio.timeout(10.0):
            while not (held := [e.id for e in w.live.fleet if index.blocks_held(state.slot(e.id))]):
                await asyncio.sleep(0.01)
        for endpoint in held:
            await w.engines.kill(endpoint)
            await w.engines.restart(endpoint)
        async with asyncio.timeout(10.0):
            while any(index.blocks_held(state.slot(endpoint)) for endpoint in held):
                await asyncio.sleep(0.01)


@pytest.mark.mission("B15")
async def test_operators_see_state_and_metrics(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession(raise_for_status=True) as http:
        async with http.post(f"{w.url}/v1/completions", json=body(stream=True)) as answer:
            await answer.read()
        async with http.get(f"http://127.0.0.1:{w.config.server.admin_port}/state") as answer:
            state = await answer.json()
        async with http.get(f"http://127.0.0.1:{w.config.server.admin_port}/metrics") as answer:
            page = await answer.text()
    assert [row["usable"] for row in state["endpoints"]] == [True] * 8
    assert 'vicinal_requests_total{ending="done"} 1.0' in page
    assert "vicinal_scheduler_latency_seconds_count 1.0" in page
    assert 'vicinal_gateway_events_total{kind="requests"} 1.0' in page


async def _answer(http: aiohttp.ClientSession, w: World, asked: dict[str, object]) -> tuple[int, str]:
    async with http.post(f"{w.url}/v1/completions", json=asked) as answer:
        return answer.status, await answer.text()


def _busiest(w: World, letter: str) -> str:
    """The engine of that role with most under way; "" when none has anything."""
    legs = {name: e["legs"] for name, e in w.engines.summary()["engines"].items() if f"-{letter}" in name and e["legs"]}
    return max(legs, key=legs.__getitem__, default="")


def _observations(folder: Path) -> list[ObservationRecord]:
    return [line for line in records(folder / "record") if isinstance(line, ObservationRecord)]
