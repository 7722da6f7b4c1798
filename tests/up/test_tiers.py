"""The live system over engines that offload KV: events of their tiers lead a prompt back to where it was evicted."""

from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from tests.up.test_live import World, body, world
from vicinal.config.fleet import Config
from vicinal.domain.tier import Tier
from vicinal.observe.lines import DecisionRecord, ObservationRecord
from vicinal.observe.read import records

PROMPT_TOKENS = 4000


def offloading(config: Config) -> Config:
    """HBM for one such prompt on each prefill endpoint, host memory for many."""
    small = tuple(
        replace(entry, kv_tokens=5_000 if "p" in entry.id.partition("-")[2] else 100_000, host_tokens=200_000)
        for entry in config.endpoint
    )
    return replace(config, endpoint=small)


async def ask(w: World, http: aiohttp.ClientSession, seed: int, **more: object) -> int:
    async with http.post(f"{w.url}/v1/completions", json=body(PROMPT_TOKENS, 3, seed=seed, **more)) as answer:
        usage = (await answer.json())["usage"]
    return int(usage["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.mission("B1", "B9", "B16")
async def test_an_evicted_prompt_goes_back_to_the_host_memory_that_has_it(tmp_path: Path) -> None:
    async with world(tmp_path, "prefill_first", offloading) as w, aiohttp.ClientSession() as http:
        cached = [await ask(w, http, seed) for seed in (*range(9), 0)]
        assert cached == [0] * 9 + [PROMPT_TOKENS - 16], "nine prompts on four prefill endpoints"
        await w.until_idle()
    lines = list(records(tmp_path / "record"))
    first, *_, again = [line for line in lines if isinstance(line, DecisionRecord) and line.leg == "prefill"]
    assert again.selected_worker[0] == first.selected_worker[0]
    loaded = again.predicted_loaded_tokens[Tier.HOST.value]
    assert 0 < loaded <= again.predicted_cached_tokens == PROMPT_TOKENS - 16
    assert again.cache_state == "host"
    assert again.cache_location == again.selected_worker[0]
    assert again.estimated_cache_cost == pytest.approx(loaded * 327_680 / 128e9, rel=1e-4)
    assert {line.reuse for line in lines if isinstance(line, ObservationRecord)} == {"exact"}


@pytest.mark.mission("B16")
async def test_what_a_salt_keeps_apart_stays_apart_in_host_memory(tmp_path: Path) -> None:
    """Events of offloaded blocks say nothing of the salt that is in their hashes."""
    async with world(tmp_path, "prefill_first", offloading) as w, aiohttp.ClientSession() as http:
        assert await ask(w, http, 0, cache_salt="ours") == 0
        for seed in range(1, 9):
            assert await ask(w, http, seed) == 0
        assert await ask(w, http, 0) == 0
        assert await ask(w, http, 0, cache_salt="theirs") == 0
        assert await ask(w, http, 0, cache_salt="ours") == PROMPT_TOKENS - 16
        await w.until_idle()
    lines = [line for line in records(tmp_path / "record") if isinstance(line, ObservationRecord)]
    assert {line.reuse for line in lines} == {"exact"}
