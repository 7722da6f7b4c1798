"""The fleet changes while the gateway serves: by hand, and by an edited file."""

import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from tests.ports import free_row
from tests.up.test_live import body, world
from tests.up.test_serve import PAGE
from tests.up.test_up import PORTS
from vicinal.config.cluster import endpoints
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.config.toml import to_toml
from vicinal.domain.endpoint import Role
from vicinal.wiring.reloading import ConfigWatch


def some(config: Config, *names: str) -> Config:
    return replace(config, endpoint=tuple(entry for entry in config.endpoint if entry.id in names))


@pytest.mark.mission("B12", "B16")
async def test_endpoints_leave_and_come_back_under_load_and_no_request_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        first = ("r1-p1", "r1-d1", "r2-p1", "r2-d1")
        other = ("r2-p1", "r2-d1", "r2-d2")
        answered = 0

        async def ask(seed: int) -> None:
            nonlocal answered
            asked = body(3000, 30, seed=seed % 9, stream=bool(seed % 2))
            async with http.post(f"{w.url}/v1/completions", json=asked) as answer:
                text = await answer.text()
                assert answer.status == 200, text
                assert '"error"' not in text
            answered += 1

        asked = []
        for number in range(60):
            asked.append(asyncio.ensure_future(ask(number)))
            await asyncio.sleep(0.02)
            if number % 20 == 5:
                await w.live.change_fleet(endpoints(some(w.config, *first)))
            if number % 20 == 12:
                await w.live.change_fleet(endpoints(some(w.config, *other)))
                async with asyncio.timeout(20):
                    while w.live.reported() < len(other):
                        await asyncio.sleep(0.01)
        await asyncio.gather(*asked)
        assert answered == 60
        assert set(w.live.followers.scrapers) == set(w.live.followers.feeds) == set(other)
        assert {row["id"] for row in w.live.state()["endpoints"]} == set(other)
        page = w.live.metrics.expose().decode()
        assert 'endpoint="r2-d1"' in page
        assert "r1-p1" not in "".join(line for line in page.splitlines() if line.startswith("vicinal_worker"))
        assert 'vicinal_feed_events_total{endpoint="r1-p1"' not in page
        await w.until_idle()

        await w.live.change_fleet(endpoints(w.config))  # back again: what they hold is learned from their buffers
        async with asyncio.timeout(20):
            while w.live.reported() < 8:
                await asyncio.sleep(0.01)
            state = w.live.scheduler.state
            for endpoint in w.live.fleet:
                pool = w.engines.station(endpoint.id).driver.engine.memory.pool
                slot = state.slot(endpoint.id)
                while state.index.blocks_held(slot) != pool.cached:
                    await asyncio.sleep(0.01)
        await w.until_idle()


async def test_a_fleet_with_an_address_that_is_none_is_refused_whole(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        bad = tuple(replace(entry, url="ftp://x:1") if n == 3 else entry for n, entry in enumerate(w.config.endpoint))
        with pytest.raises(ValueError, match="expected http://host:port"):
            await w.live.take_over(replace(w.config, endpoint=bad))
        assert len(w.live.fleet) == len(w.live.followers.scrapers) == 8
        with pytest.raises(ValueError, match="no-such-profile"):
            await w.live.take_over(
                replace(w.config, endpoint=tuple(replace(e, profile="no-such-profile") for e in w.config.endpoint))
            )


class Taken:
    def __init__(self) -> None:
        self.configs: list[Config] = []
        self._more = asyncio.Event()

    async def take(self, config: Config) -> None:
        self.configs.append(config)
        self._more.set()

    async def wait(self) -> Config:
        async with asyncio.timeout(20):
            await self._more.wait()
        self._more.clear()
        return self.configs[-1]


async def test_an_edited_file_is_taken_over_and_a_wrong_one_is_told_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(to_toml(default_cluster()))
    config = load(path, {})
    taken = Taken()
    watch = ConfigWatch(path, {}, config, look_s=0.02)
    watch.start(taken.take)
    try:
        path.write_text(to_toml(some(config, "r1-p1", "r1-d1")))
        assert [entry.id for entry in (await taken.wait()).endpoint] == ["r1-p1", "r1-d1"]

        text = to_toml(config)
        line = text.count("\n") + 2
        path.write_text(text + '\n[[endpoint]]\nid = "x"\nurl = "nonsense"\nkv_blocks = 5\n')
        async with asyncio.timeout(20):
            while "stays as it was" not in caplog.text:
                await asyncio.sleep(0.01)
        assert f"cluster.toml:{line + 2}: endpoint[8].url" in caplog.text
        assert len(taken.configs) == 1

        path.unlink()
        await asyncio.sleep(0.1)
        assert len(taken.configs) == 1
        assert "No such file" in caplog.text

        path.write_text(to_toml(replace(config, server=replace(config.server, port=9))))
        assert (await taken.wait()).endpoint == config.endpoint
        async with asyncio.timeout(20):
            while "server.port: changed, and needs a restart" not in caplog.text:
                await asyncio.sleep(0.01)
        assert watch.config.server.port == 8000

        watch.ask()
        await taken.wait()
    finally:
        await watch.stop()


async def test_a_file_that_is_still_being_written_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "cluster.toml"
    text = to_toml(default_cluster())
    path.write_text(text)
    taken = Taken()
    watch = ConfigWatch(path, {}, load(path, {}), look_s=0.2)
    watch.start(taken.take)
    try:
        await asyncio.sleep(0.1)
        for end in range(0, len(text), len(text) // 20):
            path.write_text(text[:end])
            await asyncio.sleep(0.05)
        path.write_text(text.replace("r1-p1", "r1-px"))
        assert (await taken.wait()).endpoint[0].id == "r1-px"
        assert not [r for r in caplog.records if r.levelno >= logging.ERROR]
    finally:
        await watch.stop()


async def test_a_host_that_moved_in_the_file_of_places(tmp_path: Path) -> None:
    places = tmp_path / "topology.conf"
    places.write_text("SwitchName=leaf1 Nodes=h1\nSwitchName=leaf2 Nodes=h2\nSwitchName=top Switches=leaf[1-2]\n")
    plain = default_cluster()
    entries = tuple(
        replace(entry, host=host, leaf="", pod="", site="")
        for entry, host in zip(plain.endpoint[1:3], ("h1", "h2"), strict=True)
    )
    path = tmp_path / "cluster.toml"
    network = replace(plain.network, slurm_topology=str(places), uplinks_gbytes_per_s={})
    path.write_text(to_toml(replace(plain, endpoint=entries, network=network)))
    config = load(path, {})
    assert [entry.leaf for entry in config.endpoint] == ["leaf1", "leaf2"]
    taken = Taken()
    watch = ConfigWatch(path, {}, config, look_s=0.02)
    watch.start(taken.take)
    try:
        await asyncio.sleep(0.1)
        places.write_text("SwitchName=leaf1 Nodes=h2\nSwitchName=leaf2 Nodes=h1\nSwitchName=top Switches=leaf[1-2]\n")
        assert [entry.leaf for entry in (await taken.wait()).endpoint] == ["leaf2", "leaf1"]
    finally:
        await watch.stop()


async def _slow_engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reports, and never ends an answer."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/metrics" in head:
            writer.write(PAGE)
        else:
            await reader.read()
    writer.close()


async def test_serve_takes_over_an_edit_and_a_second_signal_stops_it_at_once(tmp_path: Path) -> None:
    """As an operator sees it."""
    engine = await asyncio.start_server(_slow_engine, "127.0.0.1", 0)
    config = default_cluster(free_row(PORTS), record_directory=str(tmp_path / "record"))
    url = f"http://127.0.0.1:{engine.sockets[0].getsockname()[1]}"
    plain = replace(config.endpoint[0], role=Role.BOTH, events_url="", replay_url="")
    there, gone = replace(plain, id="there", url=url), replace(plain, id="gone", url="http://127.0.0.1:1")
    path = tmp_path / "cluster.toml"
    path.write_text(to_toml(replace(config, endpoint=(gone, there))))
    serving = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "vicinal.cli.main", "serve", "--config", str(path),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert serving.stdout is not None
    assert serving.stderr is not None
    try:
        async with asyncio.timeout(60):
            assert b"2 engines" in await serving.stdout.readline()
            await serving.stdout.readline()
            path.write_text(to_toml(replace(config, endpoint=(there,))))
            serving.send_signal(signal.SIGHUP)
            while b"the fleet has" not in (line := await serving.stderr.readline()):
                assert line, "it ended"
            assert b"1 endpoints now (left: gone)" in line
            async with aiohttp.ClientSession() as http:
                base = f"http://127.0.0.1:{config.server.port}"
                while True:  # until the engine has reported
                    asked = asyncio.ensure_future(http.post(f"{base}/v1/completions", json=body(100, 5)))
                    await asyncio.wait((asked,), timeout=0.5)
                    if not asked.done():
                        break
                serving.send_signal(signal.SIGTERM)
                await asyncio.wait((asked,), timeout=1.0)
                assert serving.returncode is None, "the first signal waits for the request"
                serving.send_signal(signal.SIGTERM)
                said = await serving.stderr.read()
                assert await serving.wait() == 1
                assert b"stopped at once" in said
                assert b"Traceback" not in said
                await asyncio.gather(asked, return_exceptions=True)
    finally:
        if serving.returncode is None:
            serving.kill()
            await serving.wait()
        engine.close()
        await engine.wait_closed()
