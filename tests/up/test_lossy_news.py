"""A live gateway whose news of its engines' caches is lost, and whose engines die, restart and reset: the index is
right again, and no request is lost."""

import asyncio
import contextlib
import random
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import zmq
import zmq.asyncio
from msgspec.structs import replace

from tests.ports import free_row
from tests.up.test_live import SPEED, World, body
from tests.up.test_up import PORTS
from vicinal.clock import ModelClock
from vicinal.config.default import default_cluster
from vicinal.domain.ids import EndpointId
from vicinal.enginemodel.chain import extend_chain
from vicinal.kvindex.hashing import ROOT, chain
from vicinal.wiring.engines import make_fleet
from vicinal.wiring.live import LiveSystem

BLOCK_TOKENS = 16
KV_BLOCKS = 1_500
"""So few that engines evict: a lost removal is what makes a wrong index dangerous."""


class Forwarder:
    """Stands between an engine's publisher and its feed, and loses a share of the messages. Hides reconnections."""

    def __init__(self, context: zmq.asyncio.Context, upstream: str, seed: int) -> None:
        self.drop = 0.2
        self.lost = 0
        self._chance = random.Random(seed)
        self._from = context.socket(zmq.SUB)
        self._from.setsockopt(zmq.SUBSCRIBE, b"")
        self._from.setsockopt(zmq.RECONNECT_IVL, 20)
        self._from.connect(upstream)
        self._to = context.socket(zmq.PUB)
        self.url = f"tcp://127.0.0.1:{self._to.bind_to_random_port('tcp://127.0.0.1')}"
        self.task = asyncio.create_task(self._forward())

    async def _forward(self) -> None:
        while True:
            frames = await self._from.recv_multipart()
            if self._chance.random() < self.drop:
                self.lost += 1
            else:
                await self._to.send_multipart(frames)


class Prompt:
    """One prompt's block hashes, ours and the engines': made once, because a loop that hashes hears no reports."""

    def __init__(self, ids: list[int]) -> None:
        tokens = array("I", ids).tobytes()
        self.keys: list[int] = []
        extend_chain(self.keys, tokens, len(ids) // BLOCK_TOKENS, BLOCK_TOKENS, b"")
        self.hashes = chain(tokens[: len(self.keys) * BLOCK_TOKENS * 4], BLOCK_TOKENS, ROOT)


class LossyWorld(World):
    forwarders: dict[str, Forwarder]

    def wrong(self, prompts: list[Prompt]) -> list[str]:
        """Where the index differs from the engines' own caches: in size, or in how much of a prompt is there."""
        found = []
        state = self.live.scheduler.state
        pools = [self.engines.station(e.id).driver.engine.memory.pool for e in self.live.fleet]
        slots = [state.slot(e.id) for e in self.live.fleet]
        for endpoint, pool, slot in zip(self.live.fleet, pools, slots, strict=True):
            if state.index.blocks_held(slot) != pool.cached:
                found.append(f"{endpoint.id}: {state.index.blocks_held(slot)} blocks, truth {pool.cached}")
        for prompt in prompts if not found else ():
            ready = state.index.match(prompt.hashes, len(self.live.fleet)).ready
            for endpoint, pool, slot in zip(self.live.fleet, pools, slots, strict=True):
                if ready[slot] != (truth := pool.match(prompt.keys)):
                    found.append(f"{endpoint.id}: {ready[slot]} blocks of a prompt, truth {truth}")
        return found

    async def exact(self, prompts: list[Prompt]) -> None:
        async with asyncio.timeout(20.0):
            while self.wrong(prompts):
                await asyncio.sleep(0.05)

    def counts(self, name: str) -> int:
        return sum(feed.counts[name] for feed in self.live.followers.feeds.values())


@contextlib.asynccontextmanager
async def lossy_world(folder: Path) -> AsyncIterator[LossyWorld]:
    plain = default_cluster(free_row(PORTS), policy="cost", speed=SPEED, record_directory=str(folder / "record"))
    plain = replace(plain, endpoint=tuple(replace(e, kv_blocks=KV_BLOCKS, kv_tokens=None) for e in plain.endpoint))
    clock = ModelClock(SPEED)
    engines = make_fleet(plain, clock.origin_s)
    await engines.start()
    context = zmq.asyncio.Context()
    forwarders = {e.id: Forwarder(context, e.events_url, seed) for seed, e in enumerate(plain.endpoint)}
    config = replace(plain, endpoint=tuple(replace(e, events_url=forwarders[e.id].url) for e in plain.endpoint))
    live = LiveSystem(config, clock)
    try:
        await live.start()
        async with asyncio.timeout(20.0):
            while live.reported() < len(live.fleet):
                await asyncio.sleep(0.01)
        world = LossyWorld(config, engines, live)
        world.forwarders = forwarders
        yield world
    finally:
        await live.stop()
        for forwarder in forwarders.values():
            forwarder.task.cancel()
        await asyncio.gather(*(f.task for f in forwarders.values()), return_exceptions=True)
        context.destroy(linger=0)
        await engines.stop()


def session(number: int) -> dict[str, object]:
    """One of a few long prompts, cut off somewhere: so prefixes are shared."""
    whole = body(6000, 20, seed=number % 7)
    prompt = whole["prompt"]
    assert isinstance(prompt, list)
    return {**whole, "prompt": prompt[: 1500 + 400 * (number % 11)]}


@pytest.mark.mission("A8", "B12", "B16")
async def test_a_fifth_of_the_news_lost_an_engine_killed_and_caches_reset(tmp_path: Path) -> None:
    async with lossy_world(tmp_path) as w, aiohttp.ClientSession() as http:
        said: dict[int, str] = {}

        async def ask(number: int) -> None:
            async with http.post(f"{w.url}/v1/completions", json=session(number)) as answer:
                assert answer.status == 200, await answer.text()
                said[number] = (await answer.json())["choices"][0]["text"]

        prompts = [Prompt(ids) for n in range(77) if isinstance(ids := session(n)["prompt"], list)]
        for first in range(0, 60, 6):
            await asyncio.gather(*(ask(n) for n in range(first, first + 6)))
        await w.until_idle()
        await w.exact(prompts)
        assert sum(f.lost for f in w.forwarders.values()) > 5
        assert w.counts("gaps") > 0

        # an engine is killed under load, and comes back
        asked = [asyncio.ensure_future(ask(n)) for n in range(60, 90)]
        await asyncio.sleep(0.05)
        await w.engines.kill(EndpointId("r1-p1"))
        await asyncio.sleep(0.05)
        await w.engines.restart(EndpointId("r1-p1"))
        await asyncio.gather(*asked)
        await w.until_idle()
        await w.exact(prompts)

        # caches are reset; an engine says so at its next step only
        for endpoint in plain_urls(w):
            async with http.post(f"{endpoint}/reset_prefix_cache") as answer:
                assert (await answer.json())["success"]
            async with http.post(f"{endpoint}/v1/completions", json=session(3)) as answer:
                assert answer.status == 200
        await w.exact(prompts)

        assert len(said) == 90
        for number in range(0, 90, 9):
            async with http.post(f"{w.live.fleet[0].url}/v1/completions", json=session(number)) as answer:
                assert said[number] == (await answer.json())["choices"][0]["text"]


def plain_urls(w: World) -> list[str]:
    return [endpoint.url for endpoint in w.live.fleet]
