"""The operator's side: metrics, health and the state of the fleet, at an address of its own (loopback by default).

Nothing here is on the path of a request, so it is plain aiohttp. It shows sizes and counts, never a prompt.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from vicinal.gateway.bodies import decode
from vicinal.gateway.caller import Caller
from vicinal.gateway.copying import Copier, CopyOrder
from vicinal.gateway.errors import AnswerError, ApiError, invalid
from vicinal.gateway.forwarding import AUTHORIZATION
from vicinal.gateway.keys import KeyRing

_ORDER = msgspec.json.Decoder(CopyOrder)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OPEN = "/health"
GROUPS_MAX = 10_000
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AdminServer:
    """Serves `/metrics`, `/health`, `/state`, `/groups` and `/copies`. `state` must be quick: each call asks it.

    With `keys`, which may be replaced at any time, all but `/health` want one of them. `operator` makes of headers on
    whose behalf a copy is asked for.
    """

    def __init__(
        self,
        exposition: Callable[[], bytes],
        state: Callable[[], Mapping[str, Any]],
        groups: Callable[[int], Mapping[str, Any]],
        copier: Copier,
        body_bytes: int,
        operator: Callable[[Mapping[bytes, bytes]], Caller],
        keys: KeyRing | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        app = web.Application(client_max_size=body_bytes, middlewares=[self._admit])
        self.keys = keys
        self._operator = operator
        self._tls = tls
        app.router.add_get("/groups", self._groups)
        app.router.add_post("/copies", self._copy)
        self._list_groups = groups
        self._copier = copier
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
            await web.TCPSite(self._runner, host, port, ssl_context=self._tls).start()
        except OSError as error:
            await self._runner.cleanup()
            reason = f"cannot listen on {host}:{port} ({error.strerror}); set server.admin_port to another port"
            raise OSError(error.errno, reason) from None
        taken: int = self._runner.addresses[0][1]
        return taken

    async def stop(self) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _admit(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if self.keys is not None and request.path != OPEN:
            sent = request.headers.get("Authorization")
            try:
                self.keys.caller(None if sent is None else sent.encode("utf-8", "surrogateescape"))
            except ApiError as error:
                return _refused(error)
        return await handler(request)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._exposition(), headers={"Content-Type": METRICS_TYPE})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _copy(self, request: web.Request) -> web.Response:
        """Answers when the copy is made or known to fail. A caller that goes away abandons it."""
        headers = {
            name.lower().encode(): value.encode("utf-8", "surrogateescape") for name, value in request.headers.items()
        }
        if self.keys is not None:  # what opened this address is not for engines
            headers.pop(AUTHORIZATION, None)
        try:
            order = decode(_ORDER, await request.read())
            copied = await self._copier.copy(order, self._operator(headers), headers)
        except AnswerError as error:
            return _refused(error)
        return web.Response(body=msgspec.json.encode(copied), content_type="application/json")

    async def _state(self, _: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._describe()), content_type="application/json")

    async def _groups(self, request: web.Request) -> web.Response:
        """`?most=N` groups, 50 as a rule."""
        asked = request.query.get("most", "50")
        if not asked.isascii() or not asked.isdigit() or not 0 < int(asked) <= GROUPS_MAX:
            error = invalid(f"most is a number from 1 to {GROUPS_MAX}, not {asked[:20]!r}", param="most")
            return _refused(error)
        return web.Response(body=msgspec.json.encode(self._list_groups(int(asked))), content_type="application/json")


def _refused(error: AnswerError) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    return web.Response(status=error.status, body=error.body(), content_type="application/json", headers=headers)
