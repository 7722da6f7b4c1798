"""The live system over servers that only speak OpenAI's API: whole requests, no figures, no events."""

import asyncio
from pathlib import Path

import aiohttp
from msgspec.structs import replace

from tests.up.test_live import _observations, body, world
from vicinal.config.checks import findings
from vicinal.config.fleet import Config
from vicinal.domain.endpoint import Role
from vicinal.domain.ids import EndpointId
from vicinal.observe.lines import DecisionRecord
from vicinal.observe.read import records


def openai_servers(config: Config) -> Config:
    plain = [
        replace(entry, dialect="openai", role=Role.BOTH, events_url="", replay_url="") for entry in config.endpoint[:2]
    ]
    changed = replace(config, endpoint=tuple(plain))
    assert list(findings(changed)) == []
    return changed


async def test_they_serve_whole_requests_and_their_load_is_unknown_not_idle(tmp_path: Path) -> None:
    async with world(tmp_path, "least_loaded", openai_servers) as w, aiohttp.ClientSession() as http:

        async def ask(seed: int) -> int:
            async with http.post(f"{w.url}/v1/completions", json=body(seed=seed, output=20)) as answer:
                await answer.read()
                return answer.status

        assert await asyncio.gather(*map(ask, range(8))) == [200] * 8
        view = w.live.scheduler.state.view(w.live.scheduler.state.reports.reported_s.max())
        assert view.usable.all()
        assert all(figure != figure for figure in view.reported_running), "not a number: nobody told"
        await w.until_idle()
    assert [line.ending for line in _observations(tmp_path)] == ["done"] * 8
    decisions = [line for line in records(tmp_path / "record") if isinstance(line, DecisionRecord)]
    assert {line.leg for line in decisions} == {"whole"}
    sources = {(name, source, age) for line in decisions for name, source, age in line.inputs if "report" in name}
    assert sources == {("prefill_report", "no figures", None), ("decode_report", "no figures", None)}
    assert {line.selected_worker[0] for line in decisions} == {"r1-p1", "r1-p2"}, "spread by what we sent there"


async def test_a_server_that_dies_is_left_out_until_it_answers(tmp_path: Path) -> None:
    async with world(tmp_path, "least_loaded", openai_servers) as w, aiohttp.ClientSession() as http:
        await w.engines.kill(EndpointId("r1-p1"))
        for seed in range(3):
            async with http.post(f"{w.url}/v1/completions", json=body(seed=seed, output=4)) as answer:
                assert answer.status == 200
        await w.engines.restart(EndpointId("r1-p1"))
        async with asyncio.timeout(20.0):
            while w.live.reported() < 2:
                await asyncio.sleep(0.01)
        await w.until_idle()
