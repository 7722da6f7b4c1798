"""A live system whose doors have keys, asked as clients, operators and strangers ask it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from tests.ports import free_row
from vicinal.clock import ModelClock
from vicinal.config.access import Access
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.config.problems import ConfigError
from vicinal.gateway.keys import hash_of, new_key
from vicinal.wiring.access import access_files
from vicinal.wiring.live import LiveSystem
from vicinal.wiring.watching import FileWatch


def table(name: str, key: str, rest: str = "") -> str:
    return f'[[key]]\nid = "{name}"\nsha256 = "{hash_of(key)}"\n{rest}\n'


@dataclass
class Doors:
    live: LiveSystem
    config: Config
    http: aiohttp.ClientSession
    client: str
    narrow: str
    admin: str
    folder: Path

    async def api(self, path: str = "/completions", key: str | None = None, **fields: Any) -> tuple[int, Any, Any]:
        """A POST of a completion, or a GET of another path: status, headers, JSON."""
        url = self.live.api_url + path if path != "/health" else self.live.api_url.removesuffix("/v1") + path
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        asked = {"model": self.config.model.name, "prompt": [1, 2, 3]} | fields
        post = path == "/completions"
        async with self.http.request(
            "POST" if post else "GET", url, json=asked if post else None, headers=headers
        ) as answer:
            return answer.status, answer.headers, await answer.json()

    async def operate(self, path: str, key: str | None = None) -> tuple[int, str]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        async with self.http.get(self.live.admin_url + path, headers=headers) as answer:
            return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def doors(folder: Path) -> AsyncIterator[Doors]:
    """Nobody answers behind it: 503 is what somebody gets who was let in."""
    made = [new_key() for _ in range(3)]
    (a, client), (b, narrow), (c, admin) = made
    (folder / "keys.toml").write_text(
        table(a, client, 'tenant = "acme"') + table(b, narrow, 'tenant = "acme"\nmodels = ["other"]')
    )
    (folder / "admin.toml").write_text(table(c, admin))
    whole = default_cluster(free_row(34), record_directory=str(folder / "record"))
    access = Access(keys_file=str(folder / "keys.toml"), admin_keys_file=str(folder / "admin.toml"))
    config = replace(whole, endpoint=whole.endpoint[2:3], access=access)
    live = LiveSystem(config, ModelClock())
    async with aiohttp.ClientSession() as http:
        try:
            await live.start()
            yield Doors(live, config, http, client, narrow, admin, folder)
        finally:
            await live.stop()


@pytest.mark.mission("B10")
async def test_the_api_is_for_those_who_have_a_key(tmp_path: Path) -> None:
    async with doors(tmp_path) as d:
        for key in (None, "x", d.admin, new_key()[1]):
            for path in ("/completions", "/models"):
                status, headers, said = await d.api(path, key)
                assert (status, headers["WWW-Authenticate"], said["error"]["code"]) == (
                    401,
                    "Bearer",
                    "invalid_api_key",
                )
        status, _, said = await d.api(key=d.narrow)
        assert (status, said["error"]["code"]) == (403, "model_forbidden")
        status, _, said = await d.api(key=d.client)
        assert (status, said["error"]["code"]) == (503, "no_endpoint")
        status, _, said = await d.api(key=d.client, model="none")
        assert (status, said["error"]["code"]) == (404, "model_not_found")
        assert [m["id"] for m in (await d.api("/models", d.client))[2]["data"]] == [d.config.model.name]
        assert (await d.api("/models", d.narrow))[2]["data"] == []
        assert (await d.api("/health"))[0] == 503, "health is for everybody: nobody answers behind it here"
        counts = d.live.gateway.counters
        assert (counts.requests, counts.keys_refused, counts.models_forbidden) == (7, 8, 1)


@pytest.mark.mission("B10")
async def test_the_operators_address_has_keys_of_its_own(tmp_path: Path) -> None:
    async with doors(tmp_path) as d:
        for path in ("/metrics", "/state", "/groups", "/copies", "/nowhere"):
            for key in (None, d.client, "x"):
                status, said = await d.operate(path, key)
                assert status == 401, path
                assert "invalid_api_key" in said
        assert (await d.operate("/health"))[0] == 200
        assert [(await d.operate(path, d.admin))[0] for path in ("/metrics", "/state", "/groups")] == [200] * 3
        assert '"queues":[],"queues_left_out":0' in (await d.operate("/state", d.admin))[1]
        metrics = (await d.operate("/metrics", d.admin))[1]
        assert 'vicinal_held_requests{band="batch",lane="long"} 0.0' in metrics
        families = [line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")]
        assert len(families) == len(set(families)), "one page, one family of a name"


async def test_metrics_are_on_the_operators_address_only(tmp_path: Path) -> None:
    async with doors(tmp_path) as d, d.http.get(d.live.api_url.removesuffix("/v1") + "/metrics") as answer:
        assert answer.status == 404


async def test_keys_come_and_go_while_it_runs_and_a_wrong_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with doors(tmp_path) as d:
        file = tmp_path / "keys.toml"
        name, key = new_key()
        watch = FileWatch(lambda: access_files(d.config), look_s=0.02)
        watch.start(d.live.access.renew)
        try:
            file.write_text(table(name, key, 'tenant = "b"'))
            await _until(lambda: d.api(key=key), 503)
            assert (await d.api(key=d.client))[0] == 401
            file.write_text(table(name, key, f'tenant = "b"\nsecret = "{key}"'))
            async with asyncio.timeout(10.0):
                while not any(record.levelno == logging.ERROR for record in caplog.records):
                    await asyncio.sleep(0.02)
            assert (await d.api(key=key))[0] == 503
            assert f"{file}:5: key[0].secret: unknown key" in caplog.text
            file.write_text("")
            await _until(lambda: d.api(key=key), 401)
            assert key not in caplog.text
        finally:
            await watch.stop()


async def test_a_wrong_file_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text("[[key]]\n")
    config = replace(default_cluster(), access=Access(keys_file=str(tmp_path / "keys.toml")))
    with pytest.raises(ConfigError, match=r"keys\.toml:1: key\[0\]\.sha256: is missing"):
        LiveSystem(config, ModelClock())


async def test_a_gateway_without_keys_says_that_it_is_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = default_cluster(free_row(34), record_directory=str(tmp_path))
    for host, told in (("127.0.0.1", 0), ("0.0.0.0", 1)):
        caplog.clear()
        live = LiveSystem(
            replace(whole, endpoint=whole.endpoint[2:3], server=replace(whole.server, host=host)), ModelClock()
        )
        try:
            await live.start()
        finally:
            await live.stop()
        assert len([r for r in caplog.records if "give access.keys_file" in r.message]) == told


async def _until(ask: Any, status: int) -> None:
    async with asyncio.timeout(10.0):
        while (await ask())[0] != status:
            await asyncio.sleep(0.02)
