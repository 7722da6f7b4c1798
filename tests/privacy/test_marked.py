"""Marked prompts and keys through every path of a live system: nobody but their sender and engines has seen them."""

import asyncio
import contextlib
import json
import logging
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from tests.ports import free_row
from vicinal.clock import ModelClock
from vicinal.config.access import Access
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.gateway.keys import hash_of, new_key
from vicinal.gateway.prompt_reader import PromptReader
from vicinal.wiring.live import LiveSystem

MARK = "XYZZYPLUGH"
ENGINE_KEY = "engine-secret-QWOPZX"
IDS = [211, 223, 227, 229, 233, 239, 241, 251] * 4
"""Of a prompt that comes as tokens: no eight numbers in a row of anything else are these."""

Answer = Callable[[web.Request, dict[str, Any]], Any]
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}


def prompt_of(said: dict[str, Any]) -> str:
    return json.dumps(said.get("prompt") or said.get("messages"))


async def well(request: web.Request, said: dict[str, Any]) -> web.StreamResponse:
    if not said.get("stream"):
        choice = {"text": prompt_of(said), "finish_reason": "stop", "index": 0}
        return web.json_response({"choices": [choice], "usage": USAGE})
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    await answer.write(b"data: " + json.dumps({"choices": [{"text": prompt_of(said)}]}).encode() + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    return answer


def status(code: int, kind: str = "InternalServerError") -> Answer:
    async def answer(_: web.Request, said: dict[str, Any]) -> web.Response:
        words = f"cannot take {prompt_of(said)}"
        return web.json_response({"error": {"message": words, "type": kind, "code": code}}, status=code)

    return answer


async def plain_500(_: web.Request, said: dict[str, Any]) -> web.Response:
    return web.Response(status=500, text=prompt_of(said))


async def odd_head(request: web.Request, said: dict[str, Any]) -> web.Response:
    assert request.transport is not None
    request.transport.write(b"HTTP/9 " + prompt_of(said).encode() + b"\r\n\r\n")
    request.transport.close()
    return web.Response()


async def junk(_: web.Request, said: dict[str, Any]) -> web.Response:
    return web.Response(body=prompt_of(said).encode(), content_type="application/json")


async def odd_fields(_: web.Request, said: dict[str, Any]) -> web.Response:
    return web.json_response({"choices": prompt_of(said), "usage": prompt_of(said), "kv_transfer_params": MARK})


async def odd_params(_: web.Request, said: dict[str, Any]) -> web.Response:
    choice = {"text": "", "finish_reason": prompt_of(said), "index": 0}
    return web.json_response({"choices": [choice], "usage": {"prompt_tokens": prompt_of(said)}})


async def error_event(request: web.Request, said: dict[str, Any]) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    error = {"error": {"message": prompt_of(said), "type": prompt_of(said), "code": 500}}
    await answer.write(b"data: " + json.dumps(error).encode() + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    return answer


async def broken_stream(request: web.Request, said: dict[str, Any]) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    await answer.write(b"data: " + json.dumps({"choices": [{"text": prompt_of(said)}]}).encode() + b"\n\n")
    assert request.transport is not None
    request.transport.abort()
    return answer


ANSWERS: dict[str, Answer] = {
    "well": well,
    "status_500": status(500),
    "status_500_too_long": status(500, "too long"),
    "status_429": status(429),
    "status_404": status(404),
    "status_400": status(400, "BadRequestError"),
    "plain_500": plain_500,
    "odd_head": odd_head,
    "junk": junk,
    "odd_fields": odd_fields,
    "odd_params": odd_params,
    "error_event": error_event,
    "broken_stream": broken_stream,
}


class World:
    """One engine that answers as it is told, a gateway with keys, a capture and a record."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answer: Answer = well
        self.reached = 0
        self.kept: list[bytes] = []
        (a, self.key), (b, self.admin) = new_key(), new_key()
        (folder / "keys.toml").write_text(f'[[key]]\nid = "{a}"\nsha256 = "{hash_of(self.key)}"\ntenant = "acme"\n')
        (folder / "admin.toml").write_text(f'[[key]]\nid = "{b}"\nsha256 = "{hash_of(self.admin)}"\n')
        (folder / "engine-key").write_text(ENGINE_KEY)
        self.live: LiveSystem
        self.http: aiohttp.ClientSession

    async def engine(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {ENGINE_KEY}":
            return web.Response(status=401)
        if request.path == "/metrics":
            return web.Response(text="vllm:num_requests_running 0.0\n")
        if not request.path.startswith("/v1/"):
            return web.Response(status=404)
        self.reached += 1
        answered: web.StreamResponse = await self.answer(request, await request.json())
        return answered

    def config(self, url: str, *, pair: bool) -> Config:
        whole = default_cluster(free_row(34), record_directory=str(self.folder / "record"))
        plain = {"url": url, "events_url": "", "replay_url": ""}
        names = (2,) if not pair else (0, 2)
        access = Access(
            keys_file=str(self.folder / "keys.toml"),
            admin_keys_file=str(self.folder / "admin.toml"),
            engine_key_file=str(self.folder / "engine-key"),
        )
        entries = tuple(replace(whole.endpoint[n], **plain) for n in names)
        if pair:  # two names of one engine
            entries = (replace(entries[0], url=url.replace("127.0.0.1", "localhost")), entries[1])
        return replace(whole, endpoint=entries, access=access, scheduler=replace(whole.scheduler, hold_s_max=0.2))

    async def ask(self, body: Any, path: str = "/completions", key: str | None = None, **headers: str) -> bytes:
        headers["Authorization"] = f"Bearer {self.key if key is None else key}"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.suppress(aiohttp.ClientPayloadError):
            async with self.http.post(self.live.api_url + path, data=data, headers=headers) as answer:
                return b"%d " % answer.status + await answer.read()
        return b"broken"

    async def trusted(self) -> None:
        """An engine that failed a request is asked again when it has reported; here it need not wait for its turn."""
        async with asyncio.timeout(20.0):
            while self.live.unready():
                for scraper in self.live.followers.scrapers.values():
                    await scraper.scrape()
                await asyncio.sleep(0.02)

    async def shown(self) -> None:
        """Keep what operators can see now."""
        for path in ("/metrics", "/state", "/groups?most=1000", "/health"):
            headers = {"Authorization": f"Bearer {self.admin}"}
            async with self.http.get(self.live.admin_url + path, headers=headers) as answer:
                assert answer.status == 200
                self.kept.append(await answer.read())


@contextlib.asynccontextmanager
async def world(folder: Path, *, pair: bool) -> AsyncIterator[World]:
    w = World(folder)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", w.engine)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = w.config(f"http://127.0.0.1:{runner.addresses[0][1]}", pair=pair)
    w.live = LiveSystem(config, ModelClock(), folder / "capture")
    async with aiohttp.ClientSession() as w.http:
        try:
            await w.live.start()
            await w.trusted()
            yield w
        finally:
            await w.live.stop()
            await runner.cleanup()


def assert_nothing_marked(w: World, logged: str) -> None:
    """In logs, in what operators saw, and in every file that was written but those of keys."""
    texts = {"logs": logged.encode(), "shown": b"\n".join(w.kept)}
    for file in (*(w.folder / "record").rglob("*"), w.folder / "capture"):
        if file.is_file():
            texts[file.name] = file.read_bytes()
    assert any(name not in ("logs", "shown", "capture") and len(raw) > 100 for name, raw in texts.items()), "a record"
    secrets = [MARK.encode(), w.key[16:].encode(), w.admin[16:].encode(), ENGINE_KEY.encode()]
    secrets += [",".join(map(str, IDS[:8])).encode(), ", ".join(map(str, IDS[:8])).encode()]
    secrets += [struct.pack("<8I", *IDS[:8])]
    for name, raw in texts.items():
        for secret in secrets:
            assert secret not in raw, f"{secret!r} in {name}: {raw[max(0, raw.find(secret) - 200) :][:400]!r}"


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/completions", {"prompt": f"say {MARK} " * 20, "max_tokens": 4}),
    ("/completions", {"prompt": f"say {MARK} " * 20, "max_tokens": 4, "stream": True}),
    ("/completions", {"prompt": IDS, "max_tokens": 4}),
    ("/chat/completions", {"messages": [{"role": "user", "content": MARK}], "max_tokens": 4}),
    ("/chat/completions", {"messages": [{"role": "user", "content": MARK * 30}], "max_tokens": 4, "stream": True}),
]


@pytest.mark.mission("B10")
@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
async def test_whatever_an_engine_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, *, pair: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    async with world(tmp_path, pair=pair) as w:
        w.answer = ANSWERS[name]
        for path, body in BODIES:
            await w.trusted()
            before = w.reached
            said = await w.ask({"model": w.live.config.model.name} | body, path)
            assert w.reached > before, "the prompt went to the engine"
            if name == "status_400":
                assert said.startswith(b"400 ")
            if name == "status_500":
                assert said.startswith((b"502 ", b"503 "))
            if name in ("status_400", "status_500"):
                words = str(IDS)[:20] if body.get("prompt") == IDS else MARK
                assert words.encode() in said, "its own client reads what the engine says"
        await w.shown()
    assert_nothing_marked(w, caplog.text)


REFUSED: list[tuple[bytes, str]] = [
    (f'{{"model": "m-{MARK}", "prompt": "x"}}'.encode(), "model"),
    (f'{{"model": "llama-3.1-70b", "prompt": "{MARK}'.encode(), "cut"),
    (f'{{"model": "llama-3.1-70b", "prompt": {{"{MARK}": 1}}}}'.encode(), "type"),
    (f'{{"model": "llama-3.1-70b", "prompt": "{MARK}", "max_tokens": "{MARK}"}}'.encode(), "field"),
    (f'{{"model": "llama-3.1-70b", "prompt": "{MARK}", "kv_transfer_params": {{}}}}'.encode(), "ours"),
    (f'{{"model": "llama-3.1-70b", "prompt": "{MARK}\\ud800"}}'.encode(), "surrogate"),
    (f'{{"model": "llama-3.1-70b", "prompt": "{MARK}'.encode() + b'\xff"}', "no UTF-8"),
    (f'{{"model": "llama-3.1-70b", "prompt": "{MARK}", "cache_salt": ""}}'.encode(), "salt"),
    (f'{{"model": "llama-3.1-70b", "messages": [{{"role": "{MARK}"}}]}}'.encode(), "chat"),
]


@pytest.mark.mission("B10")
async def test_whatever_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with world(tmp_path, pair=False) as w:
        for path in ("/completions", "/chat/completions", f"/{MARK}"):
            for body, _ in REFUSED:
                await w.ask(body, path)
                await w.ask(body, path, **{"x-vicinal-tenant": MARK, "x-vicinal-class": MARK})
        for key in (w.key + "x", w.admin, MARK, ""):
            assert (await w.ask({"model": "llama-3.1-70b", "prompt": MARK}, key=key)).startswith(b"401 ")
        await w.ask({"model": "llama-3.1-70b", "prompt": MARK})
        async with w.http.post(
            w.live.admin_url + "/copies",
            json={"target": "r1-d1", "request": {"model": "llama-3.1-70b", "prompt": MARK * 50}},
            headers={"Authorization": f"Bearer {w.admin}"},
        ) as answer:
            assert answer.status >= 400
        reader, writer = await asyncio.open_connection("127.0.0.1", w.live.config.server.port)
        writer.write(f"POST /v1/{MARK} HTTP/1.1\r\n{MARK}\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        writer.close()
        await w.shown()
    assert_nothing_marked(w, caplog.text)


@pytest.mark.mission("B10")
async def test_defects_are_logged_with_their_lines_and_without_what_they_say(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)

    def defect(_: PromptReader, body: Any, prompts: list[Any], *_args: Any) -> None:
        try:
            raise KeyError(prompts[0])
        except KeyError as error:
            raise ValueError(f"cannot encode {prompts}") from error

    async with world(tmp_path, pair=False) as w:
        monkeypatch.setattr(PromptReader, "completion", defect)
        said = await w.ask({"model": "llama-3.1-70b", "prompt": MARK})
        assert said.startswith(b"500 ")
        assert MARK.encode() not in said
        assert "builtins.KeyError" in caplog.text
        assert "builtins.ValueError" in caplog.text
        assert "in defect" in caplog.text, "the lines of code"
        monkeypatch.undo()
        assert (await w.ask({"model": "llama-3.1-70b", "prompt": MARK})).startswith(b"200 ")
        await w.shown()
    assert_nothing_marked(w, caplog.text)


@pytest.mark.mission("B10")
async def test_a_new_capture_is_its_owners(tmp_path: Path) -> None:
    """Engines' events put tokens into it (docs/access.md)."""
    async with world(tmp_path, pair=False):
        assert (tmp_path / "capture").stat().st_mode & 0o777 == 0o600
