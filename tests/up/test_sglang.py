"""The live system over an emulated SGLang fleet: both legs of a hand-off at once, on real sockets, end to end."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from tests.up.test_live import World, _busiest, _observations, body, world
from vicinal.config.checks import findings
from vicinal.config.fleet import Config
from vicinal.domain.effects import Record
from vicinal.domain.endpoint import HandOff, Role
from vicinal.domain.ids import EndpointId
from vicinal.emulator.driver import EngineDriver
from vicinal.observe.encode import encode_decision
from vicinal.observe.records import record_files
from vicinal.wiring.again import effects_again
from vicinal.wiring.engines import make_fleet


def sglang(config: Config) -> Config:
    """The default cluster, of SGLang engines."""
    fleet = [
        replace(entry, dialect="sglang", bootstrap_port=10_000 + at if entry.role is Role.PREFILL else 8998)
        for at, entry in enumerate(config.endpoint)
    ]
    changed = replace(config, endpoint=tuple(fleet))
    assert list(findings(changed)) == []
    return changed


async def streamed(http: aiohttp.ClientSession, w: World, what: Any) -> tuple[int, str]:
    async with http.post(f"{w.url}/v1/completions", json=what) as answer:
        return answer.status, await answer.text()


def text_of(events: str) -> str:
    payloads = [json.loads(line[6:]) for line in events.split("\n\n") if line.startswith("data: {")]
    return "".join(choice["text"] for payload in payloads for choice in payload["choices"])


@pytest.mark.mission("B11", "A7")
async def test_streams_are_what_the_engines_say_and_nothing_is_left(tmp_path: Path) -> None:
    async with world(tmp_path, "least_loaded", sglang) as w, aiohttp.ClientSession() as http:
        wanted = []
        for seed in range(6):
            what = body(seed=seed)
            asked = asyncio.gather(*(streamed(http, w, what | {"stream": stream}) for stream in (True, False)))
            (first, events), (second, whole) = await asked
            assert (first, second) == (200, 200)
            assert events.endswith("data: [DONE]\n\n")
            wanted.append((text_of(events), json.loads(whole)["choices"][0]["text"]))
        assert all(split == other and len(split) > 40 for split, other in wanted)
        assert w.live.gateway.counters.handoffs == 12
        await w.until_idle()
        summary = w.engines.summary()
        assert sum(engine["pulled_tokens"] for engine in summary["engines"].values()) > 0
        assert summary["hand_offs_refused"] == 0
    seen = list(_observations(tmp_path))
    assert [line.ending for line in seen] == ["done"] * 12
    told = [line.cached_tokens for line in seen if line.cached_tokens is not None]
    assert told, "by prefill legs, where they answer before the decode leg is through"


@pytest.mark.mission("C4")
async def test_a_captured_run_is_decided_again_as_it_was(tmp_path: Path) -> None:
    capture = tmp_path / "run.jsonl"
    async with world(tmp_path, change=sglang, capture=capture) as w, aiohttp.ClientSession() as http:
        await asyncio.gather(*(streamed(http, w, body(seed=n, output=30, stream=True)) for n in range(8)))
        await w.until_idle()
    (file,) = record_files(tmp_path / "record")
    lived = [line for line in file.read_bytes().splitlines(keepends=True) if line.startswith(b'{"kind":"decision"')]
    again = [encode_decision(e.decision) for e in effects_again(capture) if isinstance(e, Record)]
    assert len(again) == 8, "one decision per request: both legs are bound at once"
    assert again == lived


async def test_its_events_make_the_next_prompt_a_hit(tmp_path: Path) -> None:
    async with world(tmp_path, change=sglang) as w, aiohttp.ClientSession() as http:
        assert (await streamed(http, w, body(output=100)))[0] == 200
        await w.until_idle()
        async with asyncio.timeout(10.0):
            while len(w.live.scheduler.state.index) < 250:
                await asyncio.sleep(0.01)
        assert (await streamed(http, w, body(output=100)))[0] == 200
        await w.until_idle()
    first, again = _observations(tmp_path)
    assert first.cached_tokens == 0
    assert again.cached_tokens is not None
    assert again.cached_tokens > 3900


@pytest.mark.mission("B12")
@pytest.mark.parametrize("letter", ["p", "d"])
async def test_an_engine_that_dies_breaks_both_legs_and_loses_no_request(tmp_path: Path, letter: str) -> None:
    async with world(tmp_path, "least_loaded", sglang) as w, aiohttp.ClientSession() as http:
        asked = [asyncio.ensure_future(streamed(http, w, body(60_000, 5, seed=n, stream=True))) for n in range(4)]
        async with asyncio.timeout(10.0):
            while not (busy := _busiest(w, letter)):
                await asyncio.sleep(0.005)
        await w.engines.kill(EndpointId(busy))
        answers = await asyncio.gather(*asked)
        assert [status for status, _ in answers] == [200] * 4
        assert all("[DONE]" in text and "error" not in text for _, text in answers)
        await w.until_idle()
    assert max(line.attempts for line in _observations(tmp_path)) >= 2


@pytest.mark.mission("B12")
async def test_a_transfer_that_fails_is_tried_by_another_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first decode leg breaks: the engine says so itself, so it lives, and the pair is avoided."""
    broken: list[str] = []
    submit = EngineDriver.submit

    def breaks_once(self: EngineDriver, leg: Any, pull: Any) -> None:
        submit(self, leg, pull)
        if pull is not None and not broken:
            broken.append(leg.work.id)
            leg.meeting.break_up("the transfer failed", self._clock.now())

    monkeypatch.setattr(EngineDriver, "submit", breaks_once)
    async with world(tmp_path, "least_loaded", sglang) as w, aiohttp.ClientSession() as http:
        status, text = await streamed(http, w, body(stream=True))
        assert (status, text.endswith("data: [DONE]\n\n")) == (200, True)
        await w.until_idle()
        (circuit,) = w.live.state()["circuits"]
        prefill, decode = circuit["between"]
        assert {prefill[3], decode[3]} == {"p", "d"}
        assert w.live.reported() == len(w.live.fleet), "nobody is taken for dead"
    (line,) = _observations(tmp_path)
    assert (line.ending, line.attempts) == ("done", 2)


async def test_a_client_that_leaves_frees_both_engines(tmp_path: Path) -> None:
    async with world(tmp_path, "least_loaded", sglang) as w, aiohttp.ClientSession() as http:
        async with http.post(f"{w.url}/v1/completions", json=body(200, 100_000, stream=True)) as answer:
            assert await answer.content.readany()
        await w.until_idle()
        asked = asyncio.ensure_future(streamed(http, w, body(100_000, 10, stream=True)))
        async with asyncio.timeout(10.0):
            while not w.busy():
                await asyncio.sleep(0.005)
        asked.cancel()
        await w.until_idle()
    assert [line.ending for line in _observations(tmp_path)] == ["cancelled"] * 2


async def test_what_no_emulated_engine_can_be_is_said(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        mooncake = replace(w.config, endpoint=tuple(replace(e, hand_off=HandOff.MOONCAKE) for e in w.config.endpoint))
        with pytest.raises(ValueError, match='not by "mooncake"'):
            make_fleet(mooncake, None)
        rank = replace(w.config, endpoint=(replace(w.config.endpoint[2], data_parallel_rank=0),))
        with pytest.raises(ValueError, match="data-parallel rank"):
            make_fleet(rank, None)
