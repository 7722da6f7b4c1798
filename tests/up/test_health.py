"""What /health says: whether a request that comes now could be served."""

from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from tests.up.test_live import world
from vicinal.domain.endpoint import Role
from vicinal.domain.events import EndpointUnreachable
from vicinal.domain.ids import EndpointId


async def health(w, http: aiohttp.ClientSession) -> tuple[int, str]:  # type: ignore[no-untyped-def]
    async with http.get(f"{w.url}/health") as answer:
        return answer.status, (await answer.json())["status"]


@pytest.mark.mission("B15")
async def test_a_gateway_is_ready_while_somebody_can_decode(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        assert await health(w, http) == (200, "ok")
        await w.live.followers.leave(())  # no scrape answers in between
        for endpoint in w.live.fleet:
            if endpoint.role is Role.DECODE:
                w.live.driver.post(EndpointUnreachable(EndpointId(endpoint.id), "a test says so"))
        assert await health(w, http) == (
            503,
            "no endpoint that decodes llama-3.1-70b answers (4 of 8 endpoints answer)",
        )
        await w.live.change_fleet(())
        assert await health(w, http) == (
            503,
            "no endpoint that decodes llama-3.1-70b answers (0 of 0 endpoints answer)",
        )
        fresh = replace(w.config.endpoint[2], url="http://127.0.0.1:1", events_url="", replay_url="")
        await w.live.take_over(replace(w.config, endpoint=(fresh,)))
        assert (await health(w, http))[0] == 503, "it has never reported"
        async with http.get(f"{w.live.admin_url}/health") as answer:
            assert answer.status == 200
