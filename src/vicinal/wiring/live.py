"""The live system of one configuration: gateway, feeds, record, metrics and the operator's address."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from vicinal.clock import ModelClock
from vicinal.config.cluster import endpoints
from vicinal.config.fleet import Config
from vicinal.config.toml import to_toml
from vicinal.domain.decision import Decision, Observation
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import EndpointReported, Event, TopologyChanged
from vicinal.domain.ids import RequestId
from vicinal.gateway.admin import AdminServer
from vicinal.gateway.app import Gateway
from vicinal.gateway.directory import EndpointDirectory
from vicinal.gateway.driver import CoreDriver
from vicinal.gateway.feeds.followers import Followers
from vicinal.gateway.tokencheck import TokenCheck
from vicinal.observe.metrics import Metrics
from vicinal.observe.records import DecisionLog
from vicinal.wire.capture import VERSION, CaptureHeader, CaptureWriter
from vicinal.wiring.access import AccessRenewal, admin_ring, open_doors
from vicinal.wiring.core import check, make_scheduler
from vicinal.wiring.fronts import Core, Front, HereFront
from vicinal.wiring.queues import queue_gauges
from vicinal.wiring.served import check_models, check_salts, limits, served
from vicinal.wiring.shown import shown_groups, shown_state
from vicinal.wiring.shown_overload import circuits, limit_seconds, pressure_levels
from vicinal.wiring.shown_tenants import shown_tenants

log = logging.getLogger("vicinal")

SCRAPE_WALL_S_MIN = 1.0
"""A scrape costs the engine something: at most one a second, however fast model time runs."""


def scrape_s(heartbeat_s: float, speed: float) -> float:
    """Wall seconds between two scrapes of an engine, for a heartbeat in model seconds."""
    return max(heartbeat_s / speed, SCRAPE_WALL_S_MIN)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who else wants to see decisions and observations as they happen: a terminal summary, a test."""

    decided: Callable[[Decision], None] = lambda _: None
    observed: Callable[[Observation], None] = lambda _: None


class LiveSystem:
    """Made inside a running event loop. `start` raises what names the cause: a port in use, an unknown policy.

    `session` is for asking engines; `access` reads the files of keys again.
    """

    def __init__(
        self,
        config: Config,
        clock: ModelClock,
        capture: Path | None = None,
        listeners: Listeners | None = None,
        front: Callable[[Core], Front] = HereFront,
    ) -> None:
        check(config)
        self.config = config
        self._clock = clock
        self._listeners = listeners or Listeners()
        self.fleet: tuple[Endpoint, ...] = endpoints(config)
        self._scrape_s = scrape_s(config.scheduler.heartbeat_s, clock.speed)
        heartbeat_s = self._scrape_s * clock.speed
        self.scheduler = make_scheduler(config, heartbeat_s)
        self.metrics = Metrics(self.fleet)
        self.record = DecisionLog(
            Path(config.record.directory),
            int(config.record.file_mbytes_max * 1e6),
            config.record.files_max,
            complain=log.error,
        )
        self._capture: CaptureWriter | None = None
        if capture is not None:
            header = CaptureHeader(VERSION, config.scheduler.seed, heartbeat_s, to_toml(config))
            capture.touch(mode=0o600)  # of a new file: engines' events say the tokens of prompts
            self._capture = CaptureWriter(capture, header)
        serves = served(config, self.fleet)
        (self._model,) = serves.models
        self.gateway = Gateway(serves, limits(config), self.unready)
        self.driver = CoreDriver(
            self.scheduler,
            clock,
            asyncio.get_running_loop(),
            lambda effect: self._front.perform(effect),
            record=self._decided,
            observe=self._observed,
            warn=self._warned,
            capture=None if self._capture is None else self._captured,
        )
        self.gateway.connect(self.driver)
        self._front = front(self)
        self.metrics.flow.follow(lambda: queue_gauges(self.scheduler, clock.now()))
        self.metrics.count(
            "prefix_second_looks", "Reuse that was unexplained at first", lambda: self.scheduler.selfcheck.counts
        )
        self.metrics.count("gateway_events", "What the data path met", self._on_path("gateway_events"))
        self.metrics.count("engine_faults", "What engines did wrong on the wire", self._on_path("engine_faults"))
        self.metrics.count("http_refusals", "Client connections and requests refused", self._on_path("http_refusals"))
        self.metrics.count("relay_events", "What links of core and relays met", self._on_path("relay_events"))
        self.metrics.count(
            "kv_event_oddities",
            "KV events that could not be applied as they came",
            lambda: self.scheduler.state.engine_blocks.counts,
        )
        self.metrics.gauge(
            "pressure_level", "0 normal, 1 soft, 2 hard", ("of", "name"), lambda: pressure_levels(self.scheduler)
        )
        self.metrics.gauge(
            "limit_seconds",
            "Prefill work that may wait in an engine's own queue",
            ("endpoint",),
            lambda: limit_seconds(self.scheduler),
        )
        self.metrics.gauge("circuits_open", "Circuits that are not closed", ("of",), lambda: circuits(self.scheduler))
        self._admin = AdminServer(
            self._exposition,
            self.state,
            self.groups,
            self.gateway.copier,
            self.gateway.limits.body_bytes,
            self.gateway.access.operator,
            admin_ring(config),
            serves.tls,
        )
        self.access = AccessRenewal(config, self.gateway, self._admin)
        self._port = config.server.port
        self.admin_port = config.server.admin_port
        self._changing = asyncio.Lock()
        # No limit: engines that are silent would hold all connections and keep the scrapes of the others waiting.
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=serves.engine_tls or True), headers=serves.forwarding.headers()
        )
        self.followers = Followers(
            self._heard,
            clock.now,
            self._scrape_s,
            np.random.default_rng(config.scheduler.seed),
            self.session,
            self.metrics.follow,
        )
        self._token_check: TokenCheck | None = None

    async def start(self) -> int:
        """Listen and follow the engines. Returns the API's port."""
        server = self.config.server
        for words in open_doors(self.config):
            log.warning("%s", words)
        port = self._port = await self._front.start()
        self.admin_port = await self._admin.start(server.admin_host, server.admin_port)
        self.driver.post(TopologyChanged(self.fleet))
        await self.followers.join(self.fleet)
        if self._model.tokenizer is not None:
            asking = self._token_check = TokenCheck(self._model, self.gateway.matching, self.session, self._warned)
            self.gateway.relay.prompt_counts.drifted = self.drifted
            self.metrics.count("token_check_events", "Engines asked how they tokenise", lambda: asking.counts)
            await asking.start(self.fleet)
        return port

    async def stop(self) -> None:
        """Let running answers finish, then close everything and write the rest of the record.

        A caller that is cancelled here waits no longer for answers; all else is done.
        """
        try:
            await self._front.stop()
        finally:
            self.driver.close()
            await self._close()

    async def _close(self) -> None:
        async with self._changing:
            if self._token_check is not None:
                await self._token_check.stop()
            await self.followers.stop()
            await self.session.close()
        await self._admin.stop()
        self.record.close()
        if self._capture is not None:
            try:
                self._capture.close()
            except OSError as error:
                log.error("the end of the capture cannot be written: %s", error)

    async def take_over(self, config: Config) -> None:
        """Go on with the endpoints of `config`. Raises ValueError, and changes nothing, for what cannot be served."""
        check(config)
        check_models(config)
        await self.change_fleet(endpoints(config))

    async def change_fleet(self, fleet: tuple[Endpoint, ...]) -> None:
        """The fleet is now exactly these endpoints. One whose description changed leaves and comes anew.

        What runs on one that left may end there; what it was only planned for is planned again. Raises ValueError for
        an address that is none, and for an engine without the salts that trust groups need; changes nothing then.
        """
        EndpointDirectory(fleet)
        check_salts(self.config, fleet)
        async with self._changing:
            if frozenset(fleet) == frozenset(self.fleet):
                return
            await self.followers.leave(fleet)
            _say_change(self.fleet, fleet)
            self.fleet = fleet
            self.metrics.fleet(fleet)
            self.gateway.replace_endpoints(fleet)
            self._front.fleet_changed()
            self.driver.post(TopologyChanged(fleet))
            await self.followers.join(fleet)
            if self._token_check is not None:
                self._token_check.replace(fleet)

    @property
    def api_url(self) -> str:
        """Where clients go, once started."""
        return f"{self.config.tls.scheme}://{self.config.server.host}:{self._port}/v1"

    @property
    def admin_url(self) -> str:
        return f"{self.config.tls.scheme}://{self.config.server.admin_host}:{self.admin_port}"

    def reported(self) -> int:
        """How many endpoints have said something and can be used."""
        return int(np.count_nonzero(self.scheduler.state.view(self._clock.now()).usable))

    def post(self, event: Event) -> None:
        """What a relay tells the core."""
        self.driver.post(event)

    def drifted(self) -> None:
        """An engine counted other prompt tokens than a relay did."""
        if self._token_check is not None:
            self._token_check.drifted()

    def unready(self) -> str:
        """Why no request should come now: nobody could decode its answer. A decode endpoint can prefill, too."""
        fleet = self.scheduler.state.fleet
        ours = fleet.of_model(self._model.id)
        usable = self.scheduler.state.view(self._clock.now()).usable & ours
        if (usable & fleet.decodes).any():
            return ""
        answering = f"{np.count_nonzero(usable)} of {np.count_nonzero(ours)} endpoints answer"
        return f"no endpoint that decodes {self._model.id} answers ({answering})"

    def state(self) -> Mapping[str, Any]:
        """What the scheduler believes now, for operators: a row per endpoint."""
        tokens = {"matched_by": "text: no tokenizer"} if self._token_check is None else self._token_check.state()
        shown = shown_state(self.scheduler, self.fleet, self._clock.now())
        tenants = shown_tenants(self.scheduler, self._clock.now())
        return {**shown, "tokens": tokens, "tenants": tenants, "relays": [*self._front.shown()]}

    def groups(self, most: int) -> Mapping[str, Any]:
        """The directory of block groups, for operators: the warmest ones."""
        return shown_groups(self.scheduler, self._clock.now(), most)

    def _on_path(self, metric: str) -> Callable[[], Mapping[str, int]]:
        """What the data path counts under this name, wherever it runs."""
        return lambda: self._front.counts().get(metric, {})

    def _heard(self, event: Event) -> None:
        if isinstance(event, EndpointReported):
            self.metrics.reported(event.report)
            self.record.tick(self._clock.now())
        self.driver.post(event)

    def _captured(self, event: Event, at_s: float) -> None:
        """A full disk ends the capture, not the service."""
        if self._capture is None:
            return
        try:
            self._capture(event, at_s)
        except OSError as error:
            log.error("the capture cannot be written and ends here: %s", error)
            with contextlib.suppress(OSError):  # it fails again on what is still buffered, and closes all the same
                self._capture.close()
            self._capture = None

    def _decided(self, decision: Decision, took_s: float) -> None:
        self.record.write(decision)
        self.metrics.decided(decision, took_s)
        self.gateway.copier.decided(decision)
        self._listeners.decided(decision)

    def _observed(self, observation: Observation) -> None:
        self.record.write(observation)
        self._front.over(RequestId(observation.request_id))
        self.metrics.observed(observation)
        self._listeners.observed(observation)

    def _warned(self, warning: Warn) -> None:
        self.metrics.warned(warning)
        log.warning("%s", warning.text)

    def _exposition(self) -> bytes:
        return self.metrics.expose()


def _say_change(before: tuple[Endpoint, ...], after: tuple[Endpoint, ...]) -> None:
    old, new = ({endpoint.id: endpoint for endpoint in fleet} for fleet in (before, after))
    parts = {
        "came": sorted(new.keys() - old.keys()),
        "left": sorted(old.keys() - new.keys()),
        "changed": sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
    }
    said = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)
    log.warning("the fleet has %d endpoints now (%s)", len(after), said)
