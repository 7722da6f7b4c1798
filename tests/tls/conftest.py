"""A CA made for the test, a gateway and an engine that speak TLS, on both kinds of loop."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import web
from msgspec.structs import replace

from tests.ports import free_row
from vicinal.clock import ModelClock
from vicinal.config.access import Access
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.config.tls import Tls
from vicinal.domain.endpoint import Role
from vicinal.wiring.live import LiveSystem

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@dataclass
class Engine:
    """Answers as a vLLM does, as far as it is asked here, and notes what came."""

    url: str = ""
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    chunks: int = 3

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.path, request.headers.get("Authorization")))
        if request.path == "/metrics":
            return web.Response(text="vllm:num_requests_running 0.0\n")
        if request.path != "/v1/completions":
            return web.Response(status=404)
        if not (await request.json()).get("stream"):
            return web.json_response({"choices": [{"text": "Hi"}], "usage": USAGE})
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(self.chunks):
            await answer.write(b'data: {"choices":[{"text":"' + b"x" * 1000 + b'"}]}\n\n')
        await answer.write(b"data: [DONE]\n\n")
        return answer

    @contextlib.asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None) -> AsyncIterator["Engine"]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()


class Certified:
    """A CA, certificates of it as files, and what a gateway is told of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        trustme = pytest.importorskip("trustme", reason="needs trustme: install requirements.lock again")
        self.ca = trustme.CA()
        self.ca_file = self.file("ca.pem", self.ca.cert_pem)
        self.certificate, self.key = self.server("server", "127.0.0.1", "localhost")

    def file(self, name: str, *blobs: Any) -> Path:
        path = self.folder / name
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        return path

    def server(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """A certificate for hosts, as a file of its chain and one of its key."""
        made = self.ca.issue_cert(*hosts)
        key = self.file(f"{name}-key.pem", made.private_key_pem)
        return self.file(f"{name}.pem", *made.cert_chain_pems), key

    def client(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """What somebody needs who believes this CA, and shows a certificate if there is one."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context

    def engine(self, *hosts: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(*hosts).configure_cert(context)
        return context

    def tls(self, **more: Path) -> Tls:
        return Tls(
            certificate=str(self.certificate), key=str(self.key), **{name: str(path) for name, path in more.items()}
        )


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


def configured(certified: Certified, tls: Tls, url: str, access: Access = Access(), **server: Any) -> Config:  # noqa: B008
    """One engine, which serves whole requests."""
    whole = default_cluster(free_row(34), record_directory=str(certified.folder / "record"))
    entry = replace(whole.endpoint[2], url=url, role=Role.BOTH, hand_off=False, events_url="", replay_url="")
    return replace(
        whole, endpoint=(entry,), tls=tls, access=access, server=replace(whole.server, host="localhost", **server)
    )


@contextlib.asynccontextmanager
async def gateway(config: Config) -> AsyncIterator[LiveSystem]:
    live = LiveSystem(config, ModelClock())
    try:
        await live.start()
        yield live
    finally:
        await live.stop()


@contextlib.asynccontextmanager
async def asking(context: ssl.SSLContext) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as http:
        yield http


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(20.0):
        while not holds():
            await asyncio.sleep(0.02)


class Kit:
    """What tests use of this file, which they cannot import."""

    Engine = Engine
    configured = staticmethod(configured)
    gateway = staticmethod(gateway)
    asking = staticmethod(asking)
    until = staticmethod(until)


@pytest.fixture
def kit() -> type[Kit]:
    return Kit
