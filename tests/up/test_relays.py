"""`vicinal serve --relays 2` as processes, over emulated engines: what clients see while parts of it die."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from tests.ports import free_row
from tests.up.test_live import body
from tests.up.test_up import PORTS
from vicinal.clock import ModelClock
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.config.toml import to_toml
from vicinal.domain.ids import EndpointId
from vicinal.emulator.host import EmulatedFleet
from vicinal.wiring.engines import make_fleet

SPEED = 20.0
CLIENTS = 16


class World:
    def __init__(self, config: Config, engines: EmulatedFleet, http: aiohttp.ClientSession) -> None:
        self.config = config
        self.engines = engines
        self.http = http
        self.url = f"http://127.0.0.1:{config.server.port}"
        self.admin = f"http://127.0.0.1:{config.server.admin_port}"
        self.answers: Counter[str] = Counter()
        self.command: asyncio.subprocess.Process

    async def serve(self, *arguments: str) -> None:
        self.command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vicinal.cli.main", "serve", *arguments, stdout=asyncio.subprocess.PIPE
        )
        assert self.command.stdout is not None
        for _ in range(2):
            assert await self.command.stdout.readline()

    def children(self) -> dict[str, int]:
        """Process ids by what runs there: "core", "relay-1", "relay-2"."""
        found = {}
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int((folder / "stat").read_text().rsplit(") ", 1)[1].split()[1]) == self.command.pid:
                    words = (folder / "cmdline").read_bytes().decode().split("\0")
                    found[words[words.index("--name") + 1] if "relay" in words else "core"] = int(folder.name)
        return found

    async def state(self) -> Any:
        async with self.http.get(f"{self.admin}/state") as answer:
            return await answer.json()

    async def ask(self, number: int, streamed: bool, output: int = 100) -> str:
        """ "ok", "lost" for a connection that broke, or the error that came."""
        asked = body(2000, output, seed=number % 40, stream=streamed)
        try:
            async with self.http.post(f"{self.url}/v1/completions", json=asked) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, ConnectionError):
            return "lost"
        whole = answer.status == 200 and '"error"' not in text and (not streamed or text.endswith("data: [DONE]\n\n"))
        return "ok" if whole else text[-300:]

    async def client(self, number: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.answers[await self.ask(number, streamed=bool(number % 2))] += 1

    async def idle(self) -> None:
        async with asyncio.timeout(20.0):
            while (await self.state())["requests"]:
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def served(folder: Path, *arguments: str) -> AsyncIterator[World]:
    config = default_cluster(free_row(PORTS), speed=SPEED, record_directory=str(folder / "record"))
    engines = make_fleet(config, ModelClock(SPEED).origin_s)
    await engines.start()
    path = folder / "fleet.toml"
    path.write_text(to_toml(config))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as http:
        world = World(config, engines, http)
        try:
            await world.serve("--config", str(path), *arguments)
            yield world
        finally:
            with contextlib.suppress(ProcessLookupError):
                world.command.terminate()
            await world.command.wait()
            await engines.stop()


@contextlib.asynccontextmanager
async def load(world: World) -> AsyncIterator[None]:
    stop = asyncio.Event()
    clients = [asyncio.ensure_future(world.client(number, stop)) for number in range(CLIENTS)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*clients)


@pytest.mark.mission("B11")
async def test_a_core_that_is_killed_is_noticed_by_no_client_and_knows_the_blocks_again(tmp_path: Path) -> None:
    async with served(tmp_path, "--relays", "2") as w:
        first = w.children()
        assert set(first) == {"core", "relay-1", "relay-2"}
        async with load(w):
            for _ in range(2):
                await asyncio.sleep(1.0)
                os.kill(w.children()["core"], signal.SIGKILL)
                async with asyncio.timeout(20.0):
                    while (core := w.children().get("core")) is None or core == first["core"]:
                        await asyncio.sleep(0.02)
                first = w.children()
                while True:
                    with contextlib.suppress(aiohttp.ClientError):
                        if len((await w.state())["relays"]) == 2:
                            break
                    await asyncio.sleep(0.02)
            await asyncio.sleep(1.0)
        assert set(w.answers) == {"ok"}
        assert w.answers["ok"] > 3 * CLIENTS
        await w.idle()
        async with asyncio.timeout(20.0):
            while True:
                known = {row["id"]: row["blocks_known"] for row in (await w.state())["endpoints"]}
                held = {
                    e.id: w.engines.station(EndpointId(e.id)).driver.engine.memory.pool.cached
                    for e in w.config.endpoint
                }
                if known == held:
                    break
                await asyncio.sleep(0.05)
        assert sum(known.values()) > 0


@pytest.mark.mission("B11")
async def test_a_relay_that_is_killed_takes_only_its_own_connections_with_it(tmp_path: Path) -> None:
    async with served(tmp_path, "--relays", "2") as w:
        async with load(w):
            await asyncio.sleep(1.0)
            carried = {row["id"]: row["requests"] for row in (await w.state())["relays"]}
            os.kill(w.children()["relay-1"], signal.SIGKILL)
            await asyncio.sleep(1.0)
        assert set(w.answers) <= {"ok", "lost"}
        assert w.answers["lost"] <= CLIENTS, f"of {carried}"
        await w.idle()
        async with w.http.get(f"{w.admin}/metrics") as answer:
            page = await answer.text()
        orphaned = float(page.partition('vicinal_requests_total{ending="orphaned"} ')[2].split()[0] or 0)
        assert 0 < orphaned <= w.answers["lost"]
        async with asyncio.timeout(20.0):
            while len((await w.state())["relays"]) < 2:
                await asyncio.sleep(0.05)
        assert not any(engine["legs"] for engine in w.engines.summary()["engines"].values())


async def test_sigterm_lets_answers_finish_and_ends_everybody(tmp_path: Path) -> None:
    async with served(tmp_path, "--relays", "2") as w:
        asked = [asyncio.ensure_future(w.ask(n, streamed=bool(n % 2), output=1500)) for n in range(6)]
        async with asyncio.timeout(20.0):
            while (await w.state())["requests"] < 6:
                await asyncio.sleep(0.02)
        children = w.children()
        w.command.send_signal(signal.SIGTERM)
        assert await asyncio.gather(*asked) == ["ok"] * 6
        assert await w.command.wait() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in children.values())
        with socket.create_server(("127.0.0.1", w.config.server.port)):
            pass


async def test_children_of_a_command_that_is_killed_end(tmp_path: Path) -> None:
    async with served(tmp_path, "--relays", "2") as w:
        children = w.children()
        w.command.kill()
        await w.command.wait()
        async with asyncio.timeout(20.0):
            while any(Path(f"/proc/{pid}").exists() for pid in children.values()):
                await asyncio.sleep(0.05)


async def test_an_edited_fleet_reaches_the_relays(tmp_path: Path) -> None:
    async with served(tmp_path, "--relays", "2") as w:
        kept = tuple(entry for entry in w.config.endpoint if entry.id in ("r1-p1", "r1-d1"))
        (tmp_path / "fleet.toml").write_text(to_toml(replace(w.config, endpoint=kept)))
        w.command.send_signal(signal.SIGHUP)
        async with asyncio.timeout(20.0):
            while len((await w.state())["endpoints"]) != 2:
                await asyncio.sleep(0.05)
        assert [await w.ask(n, streamed=False) for n in range(8)] == ["ok"] * 8


async def test_a_port_in_use_is_told_before_anything_starts(tmp_path: Path) -> None:
    config = default_cluster(free_row(PORTS), record_directory=str(tmp_path / "record"))
    path = tmp_path / "fleet.toml"
    path.write_text(to_toml(config))
    with socket.create_server(("127.0.0.1", config.server.port), reuse_port=True):
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vicinal.cli.main", "serve", "--config", str(path), "--relays", "2",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, errors = await command.communicate()
    assert (command.returncode, said) == (2, b"")
    assert f"cannot listen on 127.0.0.1:{config.server.port}: the port is in use" in errors.decode()


async def test_all_relays_answer_in_one_list_of_models(tmp_path: Path) -> None:
    async with served(tmp_path, "--relays", "3") as w:
        for _ in range(12):
            async with w.http.get(f"{w.url}/v1/models") as answer:
                listed = json.loads(await answer.text())
            assert listed["data"][0]["id"] == w.config.model.name
        async with asyncio.timeout(20.0):
            while True:
                async with w.http.get(f"{w.url}/health") as answer:
                    if answer.status == 200:
                        break
                    assert answer.status == 503
                await asyncio.sleep(0.02)
        assert len((await w.state())["relays"]) == 3, "not well before all are there"
