"""What is known of prompts and caches, over emulated engines: trust groups, tokens, predictions that come true."""

import asyncio
import dataclasses
import json
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from tests.ports import free_row
from tests.tokenizer.test_template import TINY
from tests.up.test_live import SPEED, body, world
from tests.up.test_up import PORTS
from vicinal.clock import ModelClock
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config, TrustGroup
from vicinal.domain.reuse import Reuse
from vicinal.observe.lines import DecisionRecord, ObservationRecord
from vicinal.observe.read import records
from vicinal.wiring.engines import make_fleet
from vicinal.wiring.live import LiveSystem


def two_groups(config: Config) -> Config:
    groups = (TrustGroup(name="a", tenants=("a1", "a2")), TrustGroup(name="b", tenants=("b1",)))
    return replace(config, trust_group=groups, server=replace(config.server, trust_tenant_header=True))


async def cached_tokens(http: aiohttp.ClientSession, url: str, tenant: str, **more: object) -> int:
    headers = {"x-vicinal-tenant": tenant} if tenant else {}
    async with http.post(f"{url}/v1/completions", json=body(4000, 5, **more), headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return int((await answer.json())["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.mission("B10", "B16")
async def test_prefixes_are_reused_inside_a_group_only_and_each_reuse_is_predicted(tmp_path: Path) -> None:
    async with world(tmp_path, "affinity", two_groups) as w, aiohttp.ClientSession() as http:
        reused = []
        for tenant, salt in (
            ("a1", None),
            ("a2", None),
            ("b1", None),
            ("", None),
            ("c1", None),
            ("a1", "own"),
            ("a2", "own"),
            ("b1", "own"),
        ):
            more = {} if salt is None else {"cache_salt": salt}
            reused.append(await cached_tokens(http, w.url, tenant, **more))
            await asyncio.sleep(0.1)  # for the events of the blocks that this one made
        assert reused == [0, 3984, 0, 0, 3984, 0, 3984, 0]
        await w.until_idle()
    seen = [line for line in records(tmp_path / "record") if isinstance(line, ObservationRecord)]
    assert [line.reuse for line in seen] == [Reuse.EXACT] * 8
    assert [line.cached_tokens for line in seen] == reused


@pytest.mark.mission("B16")
async def test_an_operator_whose_template_is_not_the_engines_is_told_and_chats_are_matched_by_text(
    tmp_path: Path,
) -> None:
    ours = tmp_path / "tokenizer"
    ours.mkdir()
    settings = json.loads((TINY / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}"
    (ours / "tokenizer_config.json").write_text(json.dumps(settings))
    (ours / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    theirs = default_cluster(free_row(PORTS), speed=SPEED, record_directory=str(tmp_path / "record"))
    config = replace(theirs, model=replace(theirs.model, tokenizer=str(ours)))
    clock = ModelClock(SPEED)
    engines = make_fleet(theirs, clock.origin_s)
    await engines.start()
    live = LiveSystem(config, clock)
    try:
        await live.start()
        async with asyncio.timeout(20.0), aiohttp.ClientSession() as http:
            while (tokens := live.state()["tokens"])["matched_by"][
                "chat"
            ] == "tokens":  # concluded when all have answered
                await asyncio.sleep(0.01)
            assert set(tokens["engines"]) == {endpoint.id for endpoint in live.fleet}
            assert {str(found) for found in tokens["engines"].values()} == {
                str({"plain": "equal", "chat": "different", "chat_with_tools": "different"})
            }
            assert tokens["matched_by"]["plain"] == "tokens"
            assert tokens["matched_by"]["chat"].startswith("text: ")
            chat = {"model": config.model.name, "messages": [{"role": "user", "content": "Hello there! " * 40}]}
            for url, asked in ((f"{live.api_url}/chat/completions", chat), (f"{live.api_url}/completions", PLAIN)):
                async with http.post(url, json={**asked, "model": config.model.name, "max_tokens": 3}) as answer:
                    assert answer.status == 200
        page = live.metrics.expose().decode()
        assert f'vicinal_warnings_total{{kind="tokens_differ"}} {2.0 * len(live.fleet)}' in page
        assert 'kind="estimated_prompts"} 1.0' in page
        assert 'kind="token_counts_differ"} 0.0' in page
    finally:
        await live.stop()
        await engines.stop()
    first, *_ = (line for line in records(tmp_path / "record") if isinstance(line, DecisionRecord))
    sources = {name: source for name, source, _ in first.inputs}
    assert (sources["prefill_blocks"], sources["prompt"]) == ("text of own dispatches", "estimate")


PLAIN = {"prompt": "plain words " * 40}


@pytest.mark.mission("B16")
async def test_a_count_that_contradicts_ours_has_the_engines_asked_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        check = w.live._token_check
        assert check is not None
        async with asyncio.timeout(20.0):
            while check.counts["plain_equal"] < len(w.live.fleet):
                await asyncio.sleep(0.01)
        counted = w.live.gateway.relay.prompt_counts
        async with http.post(f"{w.url}/v1/completions", json={**PLAIN, "model": w.config.model.name}) as answer:
            assert answer.status == 200
        assert check.counts["drifts"] == 0
        counted.drifted()
        assert check.counts["drifts"] == 1


async def test_groups_and_an_engine_without_salts_do_not_go_together(tmp_path: Path) -> None:
    async with world(tmp_path, change=two_groups) as w:
        stranger = dataclasses.replace(w.live.fleet[0], dialect="openai")
        with pytest.raises(ValueError, match="no cache salt"):
            await w.live.change_fleet((stranger, *w.live.fleet[1:]))
        assert w.live.fleet[0].dialect == "vllm"
