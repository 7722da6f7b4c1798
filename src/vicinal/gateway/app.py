"""The gateway as a whole: server, routes, relay, engine connections, and the core's driver, put together.

It is made of plain arguments: what they come from (a file, an emulated cluster) is somebody else's business.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vicinal.clock import ModelClock
from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.decision import Decision, Observation
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import Event
from vicinal.gateway.copying import Copier
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.directory import EndpointDirectory
from vicinal.gateway.driver import CoreDriver, Scheduler
from vicinal.gateway.http_server import HttpServer
from vicinal.gateway.limits import Limits
from vicinal.gateway.matching import Matching
from vicinal.gateway.parse import RequestParser, TrustedHeaders
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.relay import Relay
from vicinal.gateway.routes import Routes
from vicinal.gateway.trust import TrustGroups
from vicinal.gateway.upstream import UpstreamPool


def _ignore(*_: object) -> None:
    """The default place for what nobody wants to keep."""


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who is told what the core decides (and in how many wall seconds) and sees. `exposition` gives `/metrics`;
    `unready` says why no request should come now, "" while they may.
    """

    record: Callable[[Decision, float], None] = _ignore
    observe: Callable[[Observation], None] = _ignore
    warn: Callable[[Warn], None] = _ignore
    capture: Callable[[Event, float], None] | None = None
    exposition: Callable[[], bytes] = bytes
    unready: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Served:
    """What the gateway serves and to whom: models, their engines, whose headers it believes, who shares prefixes."""

    models: tuple[ServedModel, ...]
    endpoints: tuple[Endpoint, ...]
    trusted: TrustedHeaders = field(default_factory=TrustedHeaders)
    trust: TrustGroups = field(default_factory=TrustGroups)


class Gateway:
    """One core behind one address. Make it inside a running event loop.

    `driver` is where feeds post what they hear from engines; `counters` and `lengths` can be read at any time;
    `matching` is told by what kinds of prompts are matched.
    """

    def __init__(
        self,
        served: Served,
        scheduler: Scheduler,
        clock: ModelClock,
        limits: Limits | None = None,
        watchers: Watchers | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.counters = GatewayCounters()
        self.lengths = OutputLengths()
        self.matching = Matching()
        watchers = watchers or Watchers()
        self._directory = EndpointDirectory(served.endpoints)
        self._pool = UpstreamPool(self.limits, self.counters)
        self.relay = Relay(self._directory, self._pool, self.counters, self.lengths, self.limits)
        self.driver = CoreDriver(
            scheduler,
            clock,
            asyncio.get_running_loop(),
            self.relay.perform,
            record=watchers.record,
            observe=watchers.observe,
            warn=watchers.warn,
            capture=watchers.capture,
        )
        self.relay.connect(self.driver)
        parser = RequestParser(served.models, self.lengths, self.counters, served.trusted, self.matching, served.trust)
        self.copier = Copier(self.relay, parser)
        routes = Routes(
            self.relay,
            parser,
            self.counters,
            watchers.exposition,
            lambda: "stopping" if self._server.stopping else watchers.unready(),
            int(time.time()),
        )
        self._server = HttpServer(routes.handle, self.limits, self._count_refusal)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (0 takes a free one). Raises OSError naming host:port and how to change it."""
        return await self._server.start(host, port)

    async def stop(self) -> None:
        """Accept no more, let running answers finish for up to `limits.drain_s`, then close everything."""
        try:
            await self._server.stop(self.limits.drain_s)
        finally:
            self.driver.close()
            await self._pool.close()

    def replace_endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        """Send to exactly these from now on. Telling the core (`TopologyChanged`) is the caller's part."""
        self._directory.replace(endpoints)
        self._pool.keep_only(self._directory.addresses())
        self.relay.engine_ids.keep_only(self._directory.bootstraps())

    def _count_refusal(self) -> None:
        self.counters.refused += 1
