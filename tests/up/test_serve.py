"""The live system when its surroundings misbehave: full disks and many silent engines."""

import asyncio
import logging
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from tests.ports import free_row
from tests.up.test_up import PORTS
from vicinal.clock import ModelClock
from vicinal.config.default import default_cluster
from vicinal.domain.events import TopologyChanged
from vicinal.domain.ids import EndpointId
from vicinal.wiring.live import LiveSystem

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\nvllm:num_requests_running 0.0"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_a_capture_that_cannot_be_written_ends_and_the_gateway_serves_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = default_cluster(free_row(PORTS), record_directory=str(tmp_path))
    config = replace(whole, endpoint=whole.endpoint[1:3])  # a header that is less than a buffer
    live = LiveSystem(config, ModelClock(), Path("/dev/full"))
    await live.start()
    try:
        for _ in range(100):  # more than a buffer takes
            live.driver.post(TopologyChanged(live.fleet))
        async with aiohttp.ClientSession() as http:
            asked = {"model": config.model.name, "prompt": [1, 2, 3]}
            async with http.post(f"{live.api_url}/completions", json=asked) as answer:
                assert answer.status == 503
    finally:
        await live.stop()
    assert len([r for r in caplog.records if r.levelno == logging.ERROR and "capture" in r.message]) == 1


async def test_engines_that_are_silent_keep_no_other_from_reporting(tmp_path: Path) -> None:
    """A rack that falls silent holds one connection per engine for as long as a scrape may take."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def well(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PAGE)
        writer.close()

    rack, engine = [await asyncio.start_server(serve, "127.0.0.1", 0, backlog=500) for serve in (silent, well)]
    urls = [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in (rack, engine)]
    config = default_cluster(free_row(PORTS), record_directory=str(tmp_path))
    entry = replace(config.endpoint[0], events_url="", replay_url="")
    fleet = [replace(entry, id=f"s{n}", url=urls[0]) for n in range(120)] + [replace(entry, id="well", url=urls[1])]
    slow = replace(config.scheduler, heartbeat_s=10.0)  # a scrape may take as long, whatever else this machine does
    live = LiveSystem(replace(config, endpoint=fleet, scheduler=slow), ModelClock())
    try:
        await live.start()
        last = live.followers.scrapers[EndpointId("well")]
        async with asyncio.timeout(20.0):
            while not last.counts["reports"] and not last.counts["failures"]:
                await asyncio.sleep(0.01)
        assert dict(last.counts) == {"scrapes": 1, "reports": 1}
    finally:
        await live.stop()
        for server in (rack, engine):
            server.close()
            await server.wait_closed()
