"""Following pods over a real socket, with an API server that does what API servers do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.discovery.api_server import ApiServer, pod
from tests.discovery.test_podbook import DEFAULTS
from vicinal.gateway.discovery.api import ApiAddress, KubernetesApi
from vicinal.gateway.discovery.pod_watch import PodWatch
from vicinal.gateway.discovery.pods import Sighting


class Middle:
    def random(self) -> float:
        return 0.5


class Follow:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.told: list[list[Sighting]] = []
        self.watch: PodWatch

    async def found(self, seen: list[Sighting]) -> None:
        self.told.append(seen)

    def names(self) -> list[str]:
        return [seen.name for seen in self.told[-1]] if self.told else ["not told yet"]

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not done():
                await asyncio.sleep(0.005)

    async def are(self, *names: str) -> None:
        await self.until(lambda: self.names() == sorted(names))


@asynccontextmanager
async def follow(
    server: ApiServer, folder: Path, *, nodes: bool = False, watch_s: float = 60.0
) -> AsyncIterator[Follow]:
    address = ApiAddress(await server.start(), "llm", folder / "token", folder / "ca.crt")
    subject = Follow(server)
    async with aiohttp.ClientSession() as session:
        subject.watch = PodWatch(
            KubernetesApi(address, "app=vllm", session, answer_s=5.0),
            DEFAULTS,
            subject.found,
            Middle(),
            nodes=nodes,
            settle_s=0.01,
            watch_s=watch_s,
            pause_s=(0.02, 0.1),
        )
        subject.watch.start()
        try:
            yield subject
        finally:
            await subject.watch.stop()
            await server.stop()


async def test_a_list_in_pages_then_what_happens(tmp_path: Path) -> None:
    server = ApiServer()
    for name in "abcde":
        server.put(pod(name))
    async with follow(server, tmp_path) as f:
        await f.are("a", "b", "c", "d", "e")
        assert server.asked.count("list") == 3
        server.put(pod("f", ready=False))
        server.delete("a")
        await f.are("b", "c", "d", "e")
        server.put(pod("f"))
        await f.are("b", "c", "d", "e", "f")
        server.put(pod("b", ending=True))
        await f.are("c", "d", "e", "f")
        assert server.asked.count("list") == 3
        assert server.selectors == {"app=vllm"}


async def test_a_watch_that_ends_goes_on_from_its_bookmark(tmp_path: Path) -> None:
    server = ApiServer()
    server.put(pod("a"))
    async with follow(server, tmp_path) as f:
        await f.are("a")
        await f.until(lambda: f.watch.counts["watches"] == 1)
        server.bookmark()
        await f.until(lambda: f.watch.counts["events"] == 1)
        server.oldest = server.version  # what was before the bookmark is forgotten
        server.cut()
        server.put(pod("b"))
        await f.are("a", "b")
        assert f.watch.counts["lists"] == 1


@pytest.mark.parametrize("how", ["event", "status"])
async def test_what_is_forgotten_is_listed_again(tmp_path: Path, how: str) -> None:
    server = ApiServer()
    server.put(pod("a"))
    server.put(pod("b"))
    async with follow(server, tmp_path) as f:
        await f.are("a", "b")
        server.delete("a")
        server.put(pod("c"))
        if how == "event":
            server.forget()
        else:
            server.trouble.append(410)
        server.cut()
        await f.are("b", "c")
        await f.until(lambda: f.watch.counts["gone"] == 1)
        assert f.watch.counts["lists"] == 2


@pytest.mark.parametrize("trouble", ["drop", "garbage", 500, 503, 429])
async def test_a_watch_that_breaks_is_begun_again_and_nothing_is_missed(tmp_path: Path, trouble: int | str) -> None:
    server = ApiServer()
    server.put(pod("a"))
    async with follow(server, tmp_path) as f:
        await f.are("a")
        await f.until(lambda: f.watch.counts["watches"] == 1)
        server.trouble += [trouble] * 3
        server.cut()
        server.delete("a")
        server.put(pod("b"))
        await f.are("b")
        assert f.watch.counts["failures"] >= 2


async def test_a_server_that_falls_silent_is_left_after_a_while(tmp_path: Path) -> None:
    server = ApiServer()
    server.put(pod("a"))
    server.trouble.append("silent")
    async with follow(server, tmp_path, watch_s=-9.5) as f:  # half a second of silence, instead of ten more than asked
        await f.are("a")
        server.put(pod("b"))
        await f.are("a", "b")
        assert f.watch.counts["failures"] >= 1


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_pause(tmp_path: Path) -> None:
    server = ApiServer()
    server._cut.set()
    async with follow(server, tmp_path) as f:
        await f.are()
        await asyncio.sleep(0.5)
        assert server.asked.count("watch") < 30
        await f.until(lambda: server.asked.count("watch") >= 2)


async def test_refusals_name_their_cure_once_and_tokens_are_read_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = ApiServer()
    server.put(pod("a"))
    server.token = "second"
    async with follow(server, tmp_path) as f:
        await f.until(lambda: f.watch.counts["failures"] >= 2)
        assert f"there is no token in {tmp_path / 'token'}" in caplog.text
        (tmp_path / "token").write_text("first\n")
        await f.until(lambda: "is not accepted" in caplog.text)
        server.trouble += [403] * 3
        (tmp_path / "token").write_text("second\n")
        await f.are("a")
        assert "Role with get, list and watch on pods" in caplog.text
        said = [r.getMessage() for r in caplog.records]
        assert len(said) == len(set(said)) == 3
        assert "first" not in caplog.text
        assert "second" not in caplog.text


async def test_places_come_from_nodes_that_may_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer()
    server.nodes["n1"] = {"network.topology.nvidia.com/block": "rack-7"}
    server.put(pod("a", node="n1"))
    server.put(pod("b", node="n2"))
    async with follow(server, tmp_path, nodes=True) as f:
        await f.are("a", "b")
        assert [(seen.place.host, seen.place.leaf) for seen in f.told[-1]] == [("n1", "rack-7"), ("n2", "")]
        assert "ClusterRole with get on nodes" in caplog.text
        server.put(pod("c", node="n1"))
        await f.are("a", "b", "c")
        assert server.asked.count("node") == 2, "labels are kept for a while, and so is a refusal"


async def test_pods_that_are_no_engines_are_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer()
    server.put(pod("a", annotations={"vicinal/port": "many"}))
    async with follow(server, tmp_path) as f:
        await f.are()
        server.put(pod("b"))
        await f.are("b")
        server.put(pod("a"))
        await f.are("a", "b")
    assert caplog.text.count('pod a is not taken for an engine: annotation vicinal/port is "many"') == 1


async def test_a_burst_of_changes_is_told_together(tmp_path: Path) -> None:
    server = ApiServer()
    async with follow(server, tmp_path) as f:
        await f.are()
        told = len(f.told)
        for number in range(50):
            server.put(pod(f"p{number:02}"))
        await f.are(*[f"p{number:02}" for number in range(50)])
        assert len(f.told) - told < 10
