"""Another index, by other people, of the same engines: it must say the same of every prompt."""

import asyncio
import contextlib
import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.ports import free_port
from tests.real_engines.conftest import Pair
from tests.real_engines.engine import BLOCK_TOKENS, MODEL, indexer
from tests.real_engines.test_faults import questions
from tests.real_engines.test_hand_off import PAIRS_ONLY, PATIENT_S
from tests.real_engines.world import World, limited, prompt, world
from vicinal.gateway.prompts import pack
from vicinal.kvindex.hashing import chain


@contextlib.asynccontextmanager
async def dynamo(pair: Pair) -> AsyncIterator[str]:
    """`dynamo.indexer` subscribed to both engines; its address."""
    python = indexer()
    if python is None:
        pytest.skip("no dynamo.indexer: `make test-engines` installs one outside the checkout")
    port = free_port()
    workers = ",".join(f"{n}={engine.events_url}" for n, engine in enumerate(pair.both))
    words = [str(python), "-m", "dynamo.indexer", "--block-size", str(BLOCK_TOKENS), "--port", str(port)]
    process = subprocess.Popen(
        [*words, "--model-name", MODEL, "--workers", workers], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(30.0), aiohttp.ClientSession() as http:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.get(f"http://127.0.0.1:{port}/workers") as answer:
                        if all(w["status"] == "active" for w in await answer.json()):
                            break
                await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)  # active means that it has asked for events, not that they come
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def theirs(here: World, url: str, words: list[int]) -> list[int]:
    """Blocks of the prompt on each engine, by Dynamo."""
    async with here.http.post(f"{url}/query", json={"token_ids": words, "model_name": MODEL}) as answer:
        said = await answer.json()
    assert answer.status == 200, said
    tokens = {int(name): max(ranks.values()) for name, ranks in said["scores"].items()}
    return [tokens.get(n, 0) // BLOCK_TOKENS for n in range(2)]


def ours(here: World, words: list[int]) -> list[int]:
    state = here.live.scheduler.state
    match = state.index.match(chain(pack(words), BLOCK_TOKENS), len(state.fleet))
    return [match.ready_at(state.fleet.slots[endpoint.id]) for endpoint in here.live.fleet]


@pytest.mark.mission("B16")
async def test_dynamos_indexer_says_the_same(fresh: Pair, tmp_path: Path) -> None:
    async with dynamo(fresh) as url, world(fresh.both, tmp_path, PAIRS_ONLY, heartbeat_s=PATIENT_S) as here:
        asked = questions(6, 40)
        await limited(4, [here.complete(words, 2) for words in asked])
        await here.until_idle()
        for engine in ("p0", "d0"):
            await here.until_quiet(engine)
        known = [ours(here, words) for words in asked]
        assert known == [await theirs(here, url, words) for words in asked]
        assert {0, 11} <= {blocks for pair in known for blocks in pair}, "some are held whole, some not at all"
        strange = [random.Random(0).choice(asked)[:100] + prompt(1, 100), prompt(2, 320)]
        assert [ours(here, words) for words in strange] == [await theirs(here, url, words) for words in strange]
