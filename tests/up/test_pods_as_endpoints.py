"""A gateway whose fleet is pods of a (made) Kubernetes API, in front of emulated engines."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from msgspec.structs import replace

from tests.discovery.api_server import ApiServer, pod
from tests.ports import free_row
from tests.up.test_live import SPEED, World, body
from tests.up.test_up import PORTS
from vicinal.clock import ModelClock
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config, Endpoint
from vicinal.config.kubernetes import Kubernetes
from vicinal.config.load import parse
from vicinal.config.problems import ConfigError
from vicinal.config.toml import to_toml
from vicinal.domain.endpoint import Role
from vicinal.wiring.engines import make_fleet
from vicinal.wiring.fleets import FleetSources
from vicinal.wiring.live import LiveSystem
from vicinal.wiring.pods import api_address, together

BLOCK = "network.topology.nvidia.com/block"
SPINE = "network.topology.nvidia.com/spine"


class PodWorld(World):
    api: ApiServer
    sources: FleetSources
    entries: dict[str, Endpoint]

    def run(self, name: str, **changes: Any) -> None:
        """The pod of an emulated engine starts, or changes."""
        entry = self.entries[name]
        ports = {
            "vicinal/port": entry.url,
            "vicinal/events-port": entry.events_url,
            "vicinal/replay-port": entry.replay_url,
        }
        notes = {key: str(urlsplit(url).port) for key, url in ports.items()}
        self.api.put(
            pod(
                name,
                ip="127.0.0.1",
                node=f"node-{name}",
                labels={"llm-d.ai/role": str(entry.role)},
                annotations=notes | changes.pop("annotations", {}),
                **changes,
            )
        )
        self.api.nodes[f"node-{name}"] = {BLOCK: f"pods-{name[:2]}", SPINE: "s"}

    async def fleet_is(self, *names: str) -> None:
        async with asyncio.timeout(20):
            while {e.id for e in self.live.fleet} != set(names) or self.live.reported() < len(names):
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def pod_world(folder: Path, *in_file: str) -> AsyncIterator[PodWorld]:
    whole = default_cluster(free_row(PORTS), speed=SPEED, record_directory=str(folder / "record"))
    api = ApiServer()
    section = Kubernetes(selector="app=vllm", namespace="llm", api_url=await api.start())
    clock = ModelClock(SPEED)
    engines = make_fleet(whole, clock.origin_s)
    await engines.start()
    config = replace(whole, endpoint=tuple(e for e in whole.endpoint if e.id in in_file), kubernetes=section)
    live = LiveSystem(config, clock)
    sources = FleetSources(config, live, {})
    try:
        await live.start()
        sources.start()
        world = PodWorld(config, engines, live)
        world.api, world.sources = api, sources
        world.entries = {entry.id: entry for entry in whole.endpoint}
        yield world
    finally:
        await sources.stop()
        await live.stop()
        await engines.stop()
        await api.stop()


@pytest.mark.mission("A2", "B12", "B16")
async def test_pods_come_serve_and_go(tmp_path: Path) -> None:
    async with pod_world(tmp_path) as w, aiohttp.ClientSession() as http:
        async with http.post(f"{w.url}/v1/completions", json=body(500, 5)) as answer:
            assert answer.status == 503, "no pod is there yet"
        for name in ("r1-p1", "r1-d1"):
            w.run(name)
        await w.fleet_is("r1-p1", "r1-d1")
        one = w.live.fleet[0]
        assert (one.role, one.kv_blocks, one.block_tokens) == (Role.DECODE, 75_000, 16), "learned from its metrics"
        assert one.placement.leaf == "pods-r1"
        assert one.placement.pod == "s"

        async def ask(seed: int) -> None:
            async with http.post(f"{w.url}/v1/completions", json=body(2000, 30, seed=seed)) as answer:
                assert answer.status == 200, await answer.text()

        asked = []
        for seed in range(40):
            asked.append(asyncio.ensure_future(ask(seed)))
            await asyncio.sleep(0.02)
            if seed == 10:
                w.run("r2-p1")
                w.run("r2-d2")
            if seed == 20:
                await w.fleet_is("r1-p1", "r1-d1", "r2-p1", "r2-d2")
                w.run("r1-p1", ending=True)
                w.api.delete("r1-d1")
        await asyncio.gather(*asked)
        await w.fleet_is("r2-p1", "r2-d2")
        await w.until_idle()
        assert set(w.live.followers.feeds) == {"r2-p1", "r2-d2"}
        assert 'vicinal_discovery_events_total{kind="lists"} 1.0' in w.live.metrics.expose().decode()


async def test_the_file_s_endpoints_stay_and_a_pod_that_contradicts_them_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pod_world(tmp_path, "r1-p1", "r1-d1") as w:
        w.run("r1-p1")
        w.run("r2-p1")
        await w.fleet_is("r1-p1", "r1-d1", "r2-p1")
        assert 'pod r1-p1 is left out: "r1-p1" is endpoint[0] already' in caplog.text
        await w.sources.take_over(replace(w.config, endpoint=w.config.endpoint[1:]))
        await w.fleet_is("r1-p1", "r1-d1", "r2-p1")
        bad = replace(w.config.endpoint[0], id="x", url="ftp://x:1")
        with pytest.raises(ValueError, match="expected http"):
            await w.sources.take_over(replace(w.config, endpoint=(bad,)))
        w.run("r2-d1")
        await w.fleet_is("r1-p1", "r1-d1", "r2-p1", "r2-d1")


async def test_an_engine_that_does_not_say_its_size_waits_until_somebody_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 29\r\nConnection: close\r\n\r\nvllm:num_requests_running 0.0")
        writer.close()

    engine = await asyncio.start_server(page, "127.0.0.1", 0)
    port = str(engine.sockets[0].getsockname()[1])
    async with pod_world(tmp_path) as w:
        notes = {"vicinal/port": port, "vicinal/events-port": "0"}
        w.run("r1-p1", annotations=notes)
        async with asyncio.timeout(20):
            while "pod r1-p1 waits: its metrics do not say how many KV blocks it has" not in caplog.text:
                await asyncio.sleep(0.01)
        assert w.live.fleet == ()
        w.run("r1-p1", annotations=notes | {"vicinal/kv-blocks": "500"})
        await w.fleet_is("r1-p1")
        assert w.live.fleet[0].kv_blocks == 500
    engine.close()
    await engine.wait_closed()


def test_the_api_s_address_is_the_cluster_s_own_unless_the_file_says(tmp_path: Path) -> None:
    section = Kubernetes(selector="a", namespace_file=str(tmp_path / "namespace"))
    inside = {"KUBERNETES_SERVICE_HOST": "10.1.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert api_address(section, inside).url == "https://10.1.0.1:6443"
    assert api_address(section, {"KUBERNETES_SERVICE_HOST": "fd00::1"}).url == "https://[fd00::1]:443"
    assert api_address(section, inside).namespace == "default"
    (tmp_path / "namespace").write_text("llm\n")
    assert api_address(section, inside).namespace == "llm"
    assert api_address(replace(section, namespace="x", api_url="http://a:1"), {}).url == "http://a:1"
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        api_address(section, {})


def test_pods_that_contradict_each_other_keep_nobody_else_from_serving() -> None:
    config = default_cluster()
    first, second, third = (
        replace(entry, id=f"pod-{n}", url=f"http://10.0.0.{n}:8000", events_url="", replay_url="")
        for n, entry in enumerate(config.endpoint[:3])
    )
    second = replace(second, leaf=first.leaf, pod="another pod")
    merged, refused = together(config, [first, second, third])
    assert [entry.id for entry in merged.endpoint[8:]] == ["pod-0", "pod-2"]
    assert list(refused) == ["pod-1"]


def test_a_configuration_with_pods_needs_no_endpoints() -> None:
    config: Config = replace(default_cluster(), endpoint=(), kubernetes=Kubernetes(selector="app=vllm"))
    assert parse(to_toml(config), "f.toml", {}) == config
    with pytest.raises(ConfigError, match="no endpoint"):
        parse(to_toml(replace(config, kubernetes=Kubernetes())), "f.toml", {})
