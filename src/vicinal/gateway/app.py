"""The data path as a whole: server, routes, relay and engine connections, put together. The core is at its other end.

It is made of plain arguments: what they come from (a file, an emulated cluster) is somebody else's business.
"""

import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.endpoint import Endpoint
from vicinal.gateway.access import Access, TrustedHeaders
from vicinal.gateway.copying import Copier
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.directory import EndpointDirectory
from vicinal.gateway.forwarding import Forwarding
from vicinal.gateway.http_server import HttpServer
from vicinal.gateway.keys import KeyRing
from vicinal.gateway.kind_counts import KindCounts
from vicinal.gateway.limits import Limits
from vicinal.gateway.link import CoreLink, RelayEffect
from vicinal.gateway.matching import Matching
from vicinal.gateway.parse import RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.reading.room import ReadingRoom
from vicinal.gateway.refusals import RefusalKind
from vicinal.gateway.relay import Relay
from vicinal.gateway.routes import Routes
from vicinal.gateway.trust import TrustGroups
from vicinal.gateway.upstream import UpstreamPool


@dataclass(frozen=True, slots=True)
class Served:
    """What the gateway serves and to whom: models, their engines, whose headers it believes, who shares prefixes, whose
    keys open it (None: it is open), and which headers engines get. `tls` is for clients, None for none; `engine_tls`
    for engines with https addresses."""

    models: tuple[ServedModel, ...]
    endpoints: tuple[Endpoint, ...]
    trusted: TrustedHeaders = field(default_factory=TrustedHeaders)
    trust: TrustGroups = field(default_factory=TrustGroups)
    keys: KeyRing | None = None
    forwarding: Forwarding = field(default_factory=Forwarding)
    tls: ssl.SSLContext | None = None
    engine_tls: ssl.SSLContext | None = None


class Gateway:
    """What stands between clients, engines and a core (`connect`). Make it inside a running event loop.

    `unready` says why no request should come now, "" while they may. `counters`, `refusals` and `lengths` can be read
    at any time; `matching` is told by what kinds of prompts are matched, `access` of other keys, and `tls` and
    `engine_tls` of other certificates.
    """

    def __init__(
        self,
        served: Served,
        limits: Limits | None = None,
        unready: Callable[[], str] = str,
    ) -> None:
        self.limits = limits or Limits()
        self.counters = GatewayCounters()
        self.refusals = KindCounts(RefusalKind)
        self.lengths = OutputLengths()
        self.matching = Matching()
        self.tls = served.tls
        self.engine_tls = served.engine_tls
        self.access = Access(served.trusted, served.keys, self.counters)
        self._directory = EndpointDirectory(served.endpoints)
        self._pool = UpstreamPool(self.limits, self.counters, served.engine_tls)
        self.relay = Relay(self._directory, self._pool, self.counters, self.lengths, self.limits, served.forwarding)
        parser = RequestParser(served.models, self.lengths, self.counters, self.matching, served.trust)
        self.reading = ReadingRoom(served.models, served.trust, self.matching, self.counters, self.limits)
        self.copier = Copier(self.relay, parser, self.reading)
        routes = Routes(
            self.relay,
            parser,
            self.reading,
            self.counters,
            self.access,
            lambda: "stopping" if self._server.stopping else unready(),
            int(time.time()),
        )
        self._server = HttpServer(routes.handle, self.limits, self.refusals.add, self.access.admits)

    def connect(self, core: CoreLink) -> None:
        """Events go to `core`, whose effects come to `perform`."""
        self.relay.connect(core)

    def perform(self, effect: RelayEffect) -> None:
        """Carry out what the core decides."""
        self.relay.perform(effect)

    async def start(self, host: str, port: int, *, shared: bool = False) -> int:
        """Listen; returns the port (0 takes a free one). A `shared` port may have other processes listening at it.
        Raises OSError naming host:port and how to change it."""
        return await self._server.start(host, port, shared=shared, tls=self.tls)

    async def stop(self) -> None:
        """Accept no more, let running answers finish for up to `limits.drain_s`, then close everything."""
        try:
            await self._server.stop(self.limits.drain_s)
        finally:
            await self.reading.close()
            await self._pool.close()

    def replace_endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        """Send to exactly these from now on. Telling the core (`TopologyChanged`) is the caller's part."""
        self._directory.replace(endpoints)
        self._pool.keep_only(self._directory.addresses())
        self.relay.engine_ids.keep_only(self._directory.bootstraps())

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Totals since the start, by metric and kind: what the metrics show of the data path."""
        return {
            "gateway_events": asdict(self.counters),
            "http_refusals": dict(self.refusals.counts),
            "engine_faults": dict(self._pool.faults.counts),
        }
