"""Engines asked how they tokenise, on real sockets: what differs is told, switched off, and back when it agrees."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.builders import endpoint
from tests.tokenizer.test_template import TINY
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.ids import ModelId
from vicinal.gateway.matching import Matching
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.tokencheck import TokenCheck
from vicinal.tokenizer.kinds import PromptKind
from vicinal.tokenizer.template import ChatTemplate
from vicinal.tokenizer.tokenizer import Tokenizer

MODEL = ModelId("tiny")
TOKENIZER = Tokenizer.load(TINY)
TOOL_TEMPLATE = "{{ bos_token }}{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"

Answer = Callable[[dict[str, Any]], web.Response]


def ids(body: dict[str, Any], tokenizer: Tokenizer = TOKENIZER) -> list[int]:
    if "prompt" in body:
        return tokenizer.encode(body["prompt"])
    return tokenizer.encode_chat(body["messages"], body.get("tools"))


def tokens(given: list[int]) -> web.Response:
    return web.json_response({"tokens": given, "count": len(given), "max_model_len": 4096})


def honest(body: dict[str, Any]) -> web.Response:
    assert body["model"] == MODEL
    return tokens(ids(body))


def with_bos(body: dict[str, Any]) -> web.Response:
    return tokens([0, *ids(body)])


def other_tools(body: dict[str, Any]) -> web.Response:
    """Its template tells of tools, ours does not."""
    given = ids(body)
    return tokens([*given[:3], 99, *given[3:]] if "tools" in body else given)


def status(code: int) -> Answer:
    return lambda _: web.json_response({"error": {"message": "no"}}, status=code)


class Bench:
    """One engine whose answer can be changed, and a check of it."""

    def __init__(self, session: aiohttp.ClientSession, url: str, tokenizer: Tokenizer = TOKENIZER) -> None:
        self.answer: Answer = honest
        self.asked = 0
        self.warnings: list[Warn] = []
        self.matching = Matching()
        self.engine: Endpoint = endpoint("e0", Role.BOTH, url=url, model=MODEL)
        model = ServedModel(MODEL, 16, 4096, tokenizer)
        self.check = TokenCheck(
            model, self.matching, session, self.warnings.append, timeout_s=5.0, retry_s=0.02, again_s=0.05
        )

    def by_text(self) -> set[PromptKind]:
        return {kind for kind in PromptKind if not self.matching.by_tokens(MODEL, kind)}

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10.0):
            while not true():
                await asyncio.sleep(0.005)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made: list[Bench] = []

    async def tokenize(request: web.Request) -> web.Response:
        made[0].asked += 1
        return made[0].answer(await request.json())

    app = web.Application()
    app.router.add_post("/tokenize", tokenize)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        made.append(Bench(session, f"http://127.0.0.1:{port}"))
        yield made[0]
        await made[0].check.stop()
    await runner.cleanup()


async def once(bench: Bench, *engines: Endpoint) -> bool:
    bench.check.replace(engines or (bench.engine,))
    return await bench.check.check()


@pytest.mark.mission("B16")
async def test_an_engine_that_agrees_is_trusted_with_every_kind(bench: Bench) -> None:
    assert await once(bench)
    assert bench.warnings == []
    assert bench.by_text() == set()
    assert bench.check.state()["engines"] == {"e0": dict.fromkeys(("plain", "chat", "chat_with_tools"), "equal")}


@pytest.mark.mission("B16")
async def test_a_bos_too_many_turns_all_kinds_to_text_and_says_why_once(bench: Bench) -> None:
    bench.answer = with_bos
    for _ in range(3):
        assert await once(bench)
    assert bench.by_text() == set(PromptKind)
    assert [(warning.kind, warning.endpoint) for warning in bench.warnings] == [("tokens_differ", "e0")] * 3
    assert all("BOS" in warning.text for warning in bench.warnings)
    assert bench.check.state()["matched_by"]["chat"].startswith("text: e0 ")


@pytest.mark.mission("B16")
async def test_tools_told_otherwise_turn_only_chats_with_tools_to_text_until_it_agrees(bench: Bench) -> None:
    bench.answer = other_tools
    await once(bench)
    assert bench.by_text() == {PromptKind.TOOLS}
    (warning,) = bench.warnings
    assert "chat_with_tools" in warning.text
    assert "token 3" in warning.text
    bench.answer = honest
    await once(bench)
    assert bench.by_text() == set()
    bench.answer = other_tools
    await once(bench)
    assert len(bench.warnings) == 2, "told again when it is back"


async def test_one_engine_of_several_is_enough_and_its_leaving_mends_it(bench: Bench) -> None:
    bench.answer = with_bos
    unheard = replace(bench.engine, id="e1", url="http://127.0.0.1:1")
    assert not await once(bench, bench.engine, unheard)
    assert bench.by_text() == set(PromptKind)
    assert bench.check.state()["engines"]["e1"] == dict.fromkeys(("plain", "chat", "chat_with_tools"), "unknown")
    assert not await once(bench, unheard)
    assert bench.by_text() == set()


@pytest.mark.parametrize(
    "answer",
    [
        status(404),
        status(401),
        status(501),
        lambda _: web.Response(body=b"not json"),
        lambda _: web.json_response({"count": 3}),
        lambda _: web.json_response({"tokens": ["a"]}),
        lambda _: web.json_response({"tokens": [1] * 600_000}),
    ],
)
async def test_an_engine_that_cannot_be_asked_proves_nothing_and_is_named_once(bench: Bench, answer: Answer) -> None:
    bench.answer = answer
    for _ in range(2):
        assert await once(bench)
    (warning,) = bench.warnings
    assert (warning.kind, warning.endpoint) == ("tokens_unchecked", "e0")
    assert bench.by_text() == set()
    assert set(bench.check.state()["engines"]["e0"].values()) == {"unknown"}


async def test_a_dialect_without_the_question_is_not_asked(bench: Bench) -> None:
    assert await once(bench, replace(bench.engine, dialect="openai"))
    assert bench.asked == 0
    assert [warning.kind for warning in bench.warnings] == ["tokens_unchecked"]


async def test_an_engine_that_refuses_a_probe_leaves_its_kind_unknown(bench: Bench) -> None:
    bench.answer = lambda body: status(400)(body) if "tools" in body else honest(body)
    assert await once(bench)
    assert bench.check.state()["engines"]["e0"] == {"plain": "equal", "chat": "equal", "chat_with_tools": "unknown"}


async def test_a_chat_that_only_the_engine_renders_is_a_difference(bench: Bench) -> None:
    picky = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    ours = Tokenizer(TOKENIZER.inner, {"default": ChatTemplate(picky, {}, lambda: None)}, frozenset())  # type: ignore[arg-type,return-value]
    bench.check._tokenizer = ours
    bench.answer = lambda body: tokens([]) if "messages" in body else honest(body)
    assert await once(bench)
    assert PromptKind.CHAT in bench.by_text()
    assert any("refused here" in warning.text for warning in bench.warnings)


async def test_it_asks_again_until_an_engine_answers_and_then_only_on_drift(bench: Bench) -> None:
    bench.answer = status(503)
    await bench.check.start([bench.engine])
    await bench.until(lambda: bench.check.counts["rounds"] >= 3)
    bench.answer = honest
    await bench.until(lambda: bench.check.counts["plain_equal"] == 1)
    await asyncio.sleep(0.15)
    rounds = bench.check.counts["rounds"]
    bench.answer = with_bos
    await asyncio.sleep(0.15)
    assert bench.check.counts["rounds"] == rounds
    for _ in range(50):
        bench.check.drifted()
    await bench.until(lambda: bench.by_text() == set(PromptKind))
    assert bench.check.counts["rounds"] <= rounds + 2, "many drifts are one reason to ask"


async def test_counts_that_differ_though_probes_agree_are_told_once(bench: Bench) -> None:
    await bench.check.start([bench.engine])
    await bench.until(lambda: bench.check.counts["rounds"] == 1)
    for more in (2, 3):
        bench.check.drifted()
        await bench.until(lambda more=more: bench.check.counts["rounds"] >= more)
    await bench.until(lambda: len(bench.warnings) == 1)
    assert [(warning.kind, warning.endpoint) for warning in bench.warnings] == [("token_counts_differ", None)]
