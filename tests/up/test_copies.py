"""Copies of prefixes over emulated engines: asked for at the operator's address, made by a hand-off, hit afterwards."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from tests.up.test_live import World, body, world
from vicinal.config.fleet import Config
from vicinal.domain.ids import EndpointId
from vicinal.emulator.station import Station


async def copied(cluster: World, target: str, request: object) -> tuple[int, Any]:
    order = {"target": target, "request": request}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{cluster.live.admin_url}/copies", json=order) as answer,
    ):
        return answer.status, await answer.json()


async def completed(cluster: World, **what: Any) -> Any:
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{cluster.url}/v1/completions", json=body(**what)) as answer,
    ):
        assert answer.status == 200
        return await answer.json()


def known(cluster: World, endpoint: str) -> int:
    state = cluster.live.scheduler.state
    slot = state.slot(EndpointId(endpoint))
    assert slot is not None
    return state.index.blocks_held(slot)


async def groups(cluster: World, most: str = "50") -> Any:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{cluster.live.admin_url}/groups", params={"most": most}) as answer,
    ):
        return await answer.json()


def held_by(group: Any, endpoint: str) -> bool:
    return any(
        (copy["endpoint"], copy["tier"], copy["state"]) == (endpoint, "hbm", "ready") for copy in group["copies"]
    )


@pytest.mark.mission("B16")
async def test_the_directory_of_block_groups_is_shown(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        await completed(cluster, tokens=4000, output=4)
        await cluster.until_idle()
        shown = await groups(cluster, "1")
        assert shown["groups_known"] >= 2
        (warmest,) = shown["groups"]
        assert all(copy["epoch"] is not None and not copy["plans"] for copy in warmest["copies"])
        assert "from 1 to" in (await groups(cluster, "-1"))["error"]["message"]


@pytest.mark.mission("C5", "B8")
@pytest.mark.parametrize("target", ["r2-p2", "r2-d2"])
async def test_a_copy_is_made_by_a_hand_off_and_hit_afterwards(tmp_path: Path, target: str) -> None:
    async with world(tmp_path) as cluster:
        await completed(cluster, tokens=4000, output=4)
        await cluster.until_idle()
        status, said = await copied(cluster, target, body(tokens=4000))
        assert status == 200, said
        assert (said["target"], said["prompt_tokens"], said["moved_tokens"]) == (target, 4000, 4000)
        await cluster.until_idle()
        async with asyncio.timeout(10.0):
            while known(cluster, target) < 250:
                await asyncio.sleep(0.01)
        station = cluster.engines.station(EndpointId(target))
        assert station.driver.engine.counters.external_hits_tokens == 4000, "pulled, not computed"
        shown = await groups(cluster)
        assert sum(group["tokens"] for group in shown["groups"] if held_by(group, target)) == 4000
        assert shown["groups"][0]["heat"] > 0.5, "it was asked for a moment ago"
        status, said = await copied(cluster, target, body(tokens=4000))
        assert (status, said["error"]["code"]) == (400, "rejected")
        assert "already" in said["error"]["message"]
        exposed = cluster.live.metrics.expose().decode()
        assert 'vicinal_copies_total{ending="done"} 1.0' in exposed
        assert "vicinal_cache_migrations_triggered_by_schedule_total 1.0" in exposed
        assert 'vicinal_requests_total{ending="done"} 1.0' in exposed, "a copy is no request of a client"


async def test_what_cannot_be_copied_is_said(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        assert (await copied(cluster, "r1-p1", body(tokens=4000)))[0] == 503
        for target, request, words in (
            ("nobody", body(tokens=4000), "no endpoint is named nobody"),
            ("r1-p1", [1, 2], "not the body of a chat or completion"),
            ("r1-p1", {"model": "other", "prompt": [1, 2]}, "does not exist"),
            ("r1-p1", {"model": "llama-3.1-70b", "prompt": [[1] * 40, [2] * 40]}, "a copy is of one prompt"),
            ("r1-p1", {"model": "llama-3.1-70b", "prompt": [1, 2]}, "no whole block"),
        ):
            status, said = await copied(cluster, target, request)
            assert status in (400, 404), said
            assert words in said["error"]["message"]
        await cluster.until_idle()


async def test_what_else_a_body_says_does_not_reach_the_engines(tmp_path: Path) -> None:
    """A stop word or a second choice would end a leg before its KV is handed off."""
    async with world(tmp_path) as cluster:
        await completed(cluster, tokens=4000, output=4)
        await cluster.until_idle()
        request = body(tokens=4000, output=50, stream=True, n=3, stop=["a"], min_tokens=9, stream_options={})
        status, said = await copied(cluster, "r2-p2", request)
        assert status == 200, said


async def test_an_engine_without_a_connector_has_copied_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers 200 with one token and no parameters, as for a request that ends there."""
    async with world(tmp_path) as cluster:
        await completed(cluster, tokens=4000, output=4)
        await cluster.until_idle()
        monkeypatch.setattr(Station, "hand_off", lambda *_: None)
        status, said = await copied(cluster, "r2-p2", body(tokens=4000))
        assert status == 502, said
        assert "handed nothing over" in said["error"]["message"]
        assert 'vicinal_copies_total{ending="engine_failed"} 1.0' in cluster.live.metrics.expose().decode()
        await cluster.until_idle()


async def test_a_copier_that_goes_away_leaves_nothing_reserved(tmp_path: Path) -> None:
    def slow(config: Config) -> Config:
        return replace(config, emulator=replace(config.emulator, speed=1.0))

    async with world(tmp_path, change=slow) as cluster:
        await completed(cluster, tokens=100_000, output=2)
        await cluster.until_idle()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await copied(cluster, "r2-p2", body(tokens=100_000))
        await cluster.until_idle()
