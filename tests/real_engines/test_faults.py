"""Engines that die, reset their caches, or whose news is lost: the index is right again, and no request is lost.

What is right is told by a witness of all events (witness.py). The index may be wrong until the first evidence of a
fault, and for one heartbeat after it.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from tests.ports import free_port
from tests.real_engines.conftest import Pair
from tests.real_engines.engine import BLOCK_TOKENS, RealEngine
from tests.real_engines.test_hand_off import PAIRS_ONLY
from tests.real_engines.witness import Witness, witnessing
from tests.real_engines.world import World, limited, prompt, world
from vicinal.domain.endpoint import Role

HEARTBEAT_S = 1.0
LOST_SHARE = 0.2


def wrong(here: World, engine: str, witness: Witness) -> int:
    """Blocks that the index believes in and the engine has not, or the other way round."""
    state = here.live.scheduler.state
    slot = state.slot(here.endpoint(engine))
    assert slot is not None
    held = witness.held
    known = len(state.index.held_among(slot, held))
    return len(held) - known + here.known(engine) - known


async def right_within_a_heartbeat(here: World, engine: str, witness: Witness) -> None:
    """From now on, when the evidence is on its way."""
    await here.until_quiet(engine, 0.2)
    async with asyncio.timeout(HEARTBEAT_S):
        while wrong(here, engine, witness):
            await asyncio.sleep(0.01)


def questions(seed: int, count: int, documents: int = 20) -> list[list[int]]:
    """About documents of ten blocks, in random order: more of them than fit the prefill engine."""
    chosen = random.Random(seed).choices(range(documents), k=count)
    return [[*prompt(5000 + of, 10 * BLOCK_TOKENS), *prompt(seed * 1000 + n, 50)] for n, of in enumerate(chosen)]


@contextlib.asynccontextmanager
async def lossy(engine: RealEngine, share: float) -> AsyncIterator[tuple[RealEngine, dict[str, int]]]:
    """The engine with its events behind a relay that loses a share of them, for as long as `counts["losing"]` is 1."""
    context = zmq.asyncio.Context()
    port = free_port()
    source, out = context.socket(zmq.SUB), context.socket(zmq.PUB)
    source.setsockopt(zmq.SUBSCRIBE, b"")
    source.connect(engine.events_url)
    out.bind(f"tcp://127.0.0.1:{port}")
    counts = {"losing": 1, "lost": 0, "passed": 0}
    chance = random.Random(0)

    async def relay() -> None:
        while True:
            message = await source.recv_multipart()
            if counts["losing"] and chance.random() < share:
                counts["lost"] += 1
            else:
                counts["passed"] += 1
                await out.send_multipart(message)

    relaying = asyncio.create_task(relay())
    try:
        yield replace(engine, events_port=port), counts
    finally:
        relaying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await relaying
        context.destroy(linger=0)


@pytest.mark.mission("B12", "A7")
async def test_a_fifth_of_the_events_is_lost(fresh: Pair, tmp_path: Path) -> None:
    async with (
        lossy(fresh.prefill, LOST_SHARE) as (prefill, counts),
        world([prefill, fresh.decode], tmp_path, PAIRS_ONLY) as here,
        witnessing(fresh.prefill) as witness,
    ):
        said = 0
        for seed in range(1, 10):  # how many events an engine sends depends on how its steps fall together
            said += len(await limited(2, [here.complete(words, 2) for words in questions(seed, 60)]))
            if counts["lost"] >= 5:
                break
        assert said == 60 * seed
        assert counts["lost"] >= 5, counts
        counts["losing"] = 0
        await here.complete(prompt(99, 100), 2)  # the first evidence of whatever was lost at the end
        await right_within_a_heartbeat(here, "p0", witness)
        assert witness.held
        assert here.heard_of("p0", "gaps")


@pytest.mark.mission("B12")
async def test_a_cache_is_reset(fresh: Pair, tmp_path: Path) -> None:
    """vLLM publishes a reset with its next step, so that is the evidence."""
    async with (
        world(fresh.both, tmp_path, PAIRS_ONLY) as here,
        witnessing(fresh.prefill) as witness,
        witnessing(fresh.decode) as other,
    ):
        await limited(4, [here.complete(words, 2) for words in questions(2, 10)])
        await here.until_idle()
        assert here.known("p0") > 50
        for engine in fresh.both:
            assert engine.reset_prefix_cache()
        await here.complete(prompt(98, 100), 2)
        await right_within_a_heartbeat(here, "p0", witness)
        await right_within_a_heartbeat(here, "d0", other)
        assert here.known("p0") == len(witness.held) <= 4


@pytest.mark.mission("B12", "B11")
async def test_an_engine_is_killed_and_started_again(fresh: Pair, tmp_path: Path) -> None:
    """Under load, and both engines serve whole requests too: all are answered, by whoever is left."""
    engines = [replace(engine, role=Role.BOTH) for engine in fresh.both]
    async with world(engines, tmp_path) as here:
        await limited(4, [here.complete(words, 2) for words in questions(3, 8)])
        assert here.known("p0")
        asked = [asyncio.create_task(here.complete(words, 24)) for words in questions(4, 24)]
        await asyncio.sleep(0.5)
        fresh.prefill.kill()
        said = await asyncio.gather(*asked)
        assert len(said) == 24
        fresh.prefill.start()
        await asyncio.to_thread(fresh.prefill.wait)
        async with witnessing(fresh.prefill) as witness:
            # its first words are the evidence that it is another life; what it held before is gone
            await here.directly("p0", prompt(97, 10 * BLOCK_TOKENS), 2)
            await right_within_a_heartbeat(here, "p0", witness)
            assert here.known("p0") == 10
            async with asyncio.timeout(30.0):
                while here.live.reported() < 2:
                    await asyncio.sleep(0.05)
            await limited(4, [here.complete(words, 2) for words in questions(5, 8)])
            await here.until_idle()
            await right_within_a_heartbeat(here, "p0", witness)
