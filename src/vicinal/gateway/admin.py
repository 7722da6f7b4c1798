"""The operator's side: metrics, health and the state of the fleet, at an address of its own (loopback by default).

Nothing here is on the path of a request, so it is plain aiohttp. It shows sizes and counts, never a prompt.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AdminServer:
    """Serves `/metrics`, `/health` and `/state`. `state` is asked at each call and must be quick."""

    def __init__(self, exposition: Callable[[], bytes], state: Callable[[], Mapping[str, Any]]) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/health", self._health)
        app.router.add_get("/state", self._state)
        self._exposition = exposition
        self._describe = state
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (0 takes a free one). Raises OSError naming the address and the setting for it."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self._runner.cleanup()
            reason = f"cannot listen on {host}:{port} ({error.strerror}); set server.admin_port to another port"
            raise OSError(error.errno, reason) from None
        taken: int = self._runner.addresses[0][1]
        return taken

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._exposition(), headers={"Content-Type": METRICS_TYPE})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _state(self, _: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._describe()), content_type="application/json")
