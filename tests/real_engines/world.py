"""vicinal's live system over real engines, and what tests ask of both."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.ports import free_row
from tests.real_engines.engine import BLOCK_TOKENS, KV_BYTES_PER_TOKEN, MODEL, TOKENS_MAX, RealEngine
from vicinal.clock import ModelClock
from vicinal.config.fleet import Config, Endpoint
from vicinal.config.schema import Model, Record, Scheduler, Server
from vicinal.domain.decision import Decision, Observation
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Leg
from vicinal.scheduler.validate import validate
from vicinal.wiring.live import Listeners, LiveSystem

TEXT_IDS = range(10, 1000)
"""Token ids without special ones."""


@dataclass(slots=True)
class World:
    """A gateway over engines, and all that it decided and saw."""

    engines: Mapping[str, RealEngine]
    live: LiveSystem
    http: aiohttp.ClientSession
    decisions: list[Decision] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    async def complete(self, prompt: Sequence[int] | str, output: int = 16, **more: object) -> str:
        """One answer through the gateway."""
        return await completion(self.http, self.live.api_url, prompt, output, **more)

    async def directly(self, engine: str, prompt: Sequence[int] | str, output: int = 16, **more: object) -> str:
        """One answer from an engine itself, behind the gateway's back."""
        return await completion(self.http, f"{self.engines[engine].url}/v1", prompt, output, **more)

    async def figures(self, engine: str) -> dict[str, float]:
        """The engine's own counts (`figures_of`)."""
        async with self.http.get(f"{self.engines[engine].url}/metrics") as answer:
            return figures_of(await answer.text())

    def endpoint(self, engine: str) -> EndpointId:
        return next(endpoint.id for endpoint in self.live.fleet if endpoint.id == engine)

    def known(self, engine: str) -> int:
        """Blocks that the index believes the engine to hold."""
        state = self.live.scheduler.state
        return state.index.blocks_held(state.fleet.slots[self.endpoint(engine)])

    def heard_of(self, engine: str, kind: str) -> float:
        """How often the feed of the engine's events met something."""
        labels = {"endpoint": engine, "feed": "kv_events", "kind": kind}
        return self.live.metrics.registry.get_sample_value("vicinal_feed_events_total", labels) or 0.0

    async def until_idle(self) -> None:
        async with asyncio.timeout(60.0):
            while self.live.scheduler.requests or self.live.gateway.relay.under_way:
                await asyncio.sleep(0.02)
        validate(self.live.scheduler)

    async def until_quiet(self, engine: str, still_s: float = 0.5) -> None:
        """Until the engine's events say nothing new for a while."""
        state = self.live.scheduler.state
        slot, heard = state.fleet.slots[self.endpoint(engine)], state.events_s
        while True:
            before = heard[slot]
            await asyncio.sleep(still_s)
            if heard[slot] == before:
                return

    def plans(self) -> list[tuple[Decision, Observation]]:
        """Of each request that ended: the decision that began its last attempt, and what was seen."""
        first = {decision.request_id: decision for decision in self.decisions if decision.leg is not Leg.DECODE}
        return [(first[seen.request_id], seen) for seen in self.observations]


async def completion(
    http: aiohttp.ClientSession, url: str, prompt: Sequence[int] | str, output: int, **more: object
) -> str:
    body = {"model": MODEL, "prompt": prompt, "max_tokens": output, "temperature": 0, "ignore_eos": True, **more}
    async with http.post(f"{url}/completions", json=body) as answer:
        said: Any = await answer.json()
        assert answer.status == 200, said
        return str(said["choices"][0]["text"])


def figures_of(page: str) -> dict[str, float]:
    """Counters of a metrics page, by name and, where there is one, source: `prompt_tokens_by_source_total/local_…`."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if not line.startswith("vllm:"):
            continue
        name, _, value = line.rpartition(" ")
        bare, _, labels = name.removeprefix("vllm:").partition("{")
        source = next((part[8:-1] for part in labels.rstrip("}").split(",") if part.startswith('source="')), None)
        found[bare if source is None else f"{bare}/{source}"] = float(value)
    return found


def config_of(engines: Iterable[RealEngine], folder: Path, port: int, policy: str, heartbeat_s: float) -> Config:
    return Config(
        server=Server(port=port, admin_port=port + 1),
        model=Model(
            name=MODEL,
            tokenizer="tiny",
            block_tokens=BLOCK_TOKENS,
            tokens_max=TOKENS_MAX,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN,
            profile="llama-3.1-8b-h100-tp1-vllm",
        ),
        scheduler=Scheduler(policy=policy, heartbeat_s=heartbeat_s),
        record=Record(directory=str(folder / "record")),
        endpoint=[
            Endpoint(
                id=engine.name,
                url=engine.url,
                role=engine.role,
                host=engine.name,
                leaf="r1",
                kv_blocks=engine.blocks,
                sequences_max=16,
                events_url=engine.events_url,
                replay_url=engine.replay_url,
            )
            for engine in engines
        ],
    )


@contextlib.asynccontextmanager
async def world(
    engines: Sequence[RealEngine], folder: Path, policy: str = "cost", heartbeat_s: float = 1.0
) -> AsyncIterator[World]:
    """A gateway over these engines, all of which have reported. One that is busy for longer than a heartbeat counts as
    lost for a while."""
    decisions: list[Decision] = []
    observations: list[Observation] = []
    listeners = Listeners(decided=decisions.append, observed=observations.append)
    live = LiveSystem(config_of(engines, folder, free_row(2), policy, heartbeat_s), ModelClock(), None, listeners)
    try:
        await live.start()
        async with asyncio.timeout(30.0):
            while live.reported() < len(live.fleet):
                await asyncio.sleep(0.05)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300.0)) as http:
            yield World({engine.name: engine for engine in engines}, live, http, decisions, observations)
    finally:
        await live.stop()


def prompt(seed: int, tokens: int) -> list[int]:
    """Token ids drawn from the seed."""
    return random.Random(seed).choices(TEXT_IDS, k=tokens)


async def limited(limit: int, jobs: Sequence[Any]) -> list[Any]:
    """Await all, at most `limit` at a time, in order."""
    turn = asyncio.Semaphore(limit)

    async def one(job: Any) -> Any:
        async with turn:
            return await job

    return await asyncio.gather(*map(one, jobs))
