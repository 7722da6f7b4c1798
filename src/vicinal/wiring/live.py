"""The live system of one configuration: gateway, feeds, record, metrics and the operator's address."""

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import zmq
import zmq.asyncio

from vicinal.clock import ModelClock
from vicinal.config.cluster import endpoints, services, tokenizer_folder
from vicinal.config.fleet import Config
from vicinal.config.problems import ConfigError, Problem
from vicinal.config.toml import to_toml
from vicinal.domain.decision import Decision, Observation
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import EndpointReported, Event, TopologyChanged
from vicinal.domain.ids import ModelId
from vicinal.gateway.admin import AdminServer
from vicinal.gateway.app import Gateway, Served, Watchers
from vicinal.gateway.feeds.kv_events import KvEventFeed
from vicinal.gateway.feeds.scrapes import MetricScraper
from vicinal.gateway.limits import Limits
from vicinal.gateway.parse import TrustedHeaders
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.tokencheck import TokenCheck
from vicinal.observe.metrics import Metrics
from vicinal.observe.records import DecisionLog
from vicinal.tokenizer.tokenizer import Tokenizer
from vicinal.wire.capture import VERSION, CaptureHeader, CaptureWriter
from vicinal.wiring.core import check, make_scheduler

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
    """Made inside a running event loop. `start` raises what names the cause: a port in use, an unknown policy."""

    def __init__(
        self,
        config: Config,
        clock: ModelClock,
        capture: Path | None = None,
        listeners: Listeners | None = None,
    ) -> None:
        check(config)
        self._config = config
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
            self._capture = CaptureWriter(capture, header)
        served = _served(config, self.fleet)
        (self._model,) = served.models
        self.gateway = Gateway(
            served,
            self.scheduler,
            clock,
            _limits(config),
            Watchers(
                record=self._decided,
                observe=self._observed,
                warn=self._warned,
                capture=None if self._capture is None else self._captured,
                exposition=self._exposition,
            ),
        )
        self.metrics.count("gateway_events", "What the data path met", lambda: asdict(self.gateway.counters))
        self.metrics.count(
            "kv_event_oddities",
            "KV events that could not be applied as they came",
            lambda: self.scheduler.state.engine_blocks.counts,
        )
        self._admin = AdminServer(self._exposition, self.state, self.gateway.copier, self.gateway.limits.body_bytes)
        self._context = zmq.asyncio.Context()
        self._context.set(zmq.MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT))  # three per feed; 1,023 by default
        self._port = config.server.port
        self._admin_port = config.server.admin_port
        self._session: aiohttp.ClientSession | None = None
        self._token_check: TokenCheck | None = None
        self._feeds: list[KvEventFeed] = []
        self._scrapers: list[MetricScraper] = []

    async def start(self) -> int:
        """Listen and follow the engines. Returns the API's port."""
        server = self._config.server
        port = self._port = await self.gateway.start(server.host, server.port)
        self._admin_port = await self._admin.start(server.admin_host, server.admin_port)
        self.gateway.driver.post(TopologyChanged(self.fleet))
        # No limit: engines that are silent would hold all connections and keep the scrapes of the others waiting.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        jitter = np.random.default_rng(self._config.scheduler.seed)
        for endpoint in self.fleet:
            scraper = MetricScraper(
                endpoint,
                self._heard,
                self._clock.now,
                self._scrape_s,
                jitter,
                self._session,
                timeout_s=max(1.0, self._scrape_s),
            )
            self._scrapers.append(scraper)
            self.metrics.follow(endpoint.id, "scrapes", scraper.counts)
            await scraper.start()
            if endpoint.events_url:
                feed = KvEventFeed(
                    endpoint,
                    self._heard,
                    jitter,
                    context=self._context,
                    replay_timeout_s=self._scrape_s / 2,
                    quiet_s=self._scrape_s,
                )
                self._feeds.append(feed)
                self.metrics.follow(endpoint.id, "kv_events", feed.counts)
                await feed.start()
        if self._model.tokenizer is not None:
            check = self._token_check = TokenCheck(self._model, self.gateway.matching, self._session, self._warned)
            self.gateway.relay.prompt_counts.drifted = check.drifted
            self.metrics.count("token_check_events", "Engines asked how they tokenise", lambda: check.counts)
            await check.start(self.fleet)
        return port

    async def stop(self) -> None:
        """Let running answers finish, then close everything and write the rest of the record."""
        await self.gateway.stop()
        if self._token_check is not None:
            await self._token_check.stop()
        for scraper in self._scrapers:
            await scraper.stop()
        for feed in self._feeds:
            await feed.stop()
        self._context.destroy(linger=0)
        if self._session is not None:
            await self._session.close()
        await self._admin.stop()
        self.record.close()
        if self._capture is not None:
            try:
                self._capture.close()
            except OSError as error:
                log.error("the end of the capture cannot be written: %s", error)

    @property
    def api_url(self) -> str:
        """Where clients go, once started."""
        return f"http://{self._config.server.host}:{self._port}/v1"

    @property
    def admin_url(self) -> str:
        return f"http://{self._config.server.admin_host}:{self._admin_port}"

    def reported(self) -> int:
        """How many endpoints have said something and can be used."""
        return int(np.count_nonzero(self.scheduler.state.view(self._clock.now()).usable))

    def feeds(self) -> tuple[KvEventFeed, ...]:
        """The KV event feeds that run now, for tests that look at what they met."""
        return tuple(self._feeds)

    def state(self) -> Mapping[str, Any]:
        """What the scheduler believes now, for operators: a row per endpoint."""
        state = self.scheduler.state
        view = state.view(self._clock.now())
        return {
            "policy": self.scheduler.policy.name,
            "requests": len(self.scheduler.requests),
            "held": len(self.scheduler.holding),
            "prefill_price_s_per_s": self.scheduler.cost.posted_price(view),
            "blocks_known": len(state.index),
            "tokens": {"matched_by": "text: no tokenizer"} if self._token_check is None else self._token_check.state(),
            "endpoints": [
                {
                    "id": endpoint.id,
                    "role": endpoint.role,
                    "usable": bool(view.usable[slot]),
                    "report_age_s": _finite(view.report_age_s[slot]),
                    "wait_prefill_s": float(view.wait_prefill_s[slot]),
                    "prefills": int(view.prefill_count[slot]),
                    "decode_sequences": float(view.decode_sequences[slot]),
                    "free_blocks": float(view.free_blocks[slot]),
                    "blocks_known": state.index.blocks_held(slot),
                }
                for endpoint in self.fleet
                if (slot := state.slot(endpoint.id)) is not None
            ],
        }

    def _heard(self, event: Event) -> None:
        if isinstance(event, EndpointReported):
            self.metrics.reported(event.report)
            self.record.tick(self._clock.now())
        self.gateway.driver.post(event)

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
        self.metrics.observed(observation)
        self._listeners.observed(observation)

    def _warned(self, warning: Warn) -> None:
        self.metrics.warned(warning)
        log.warning("%s", warning.text)

    def _exposition(self) -> bytes:
        return self.metrics.expose()


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _served(config: Config, fleet: tuple[Endpoint, ...]) -> Served:
    for at, entry in enumerate(config.endpoint):
        if entry.model not in (None, config.model.name):
            words = f'"{entry.id}" serves {entry.model}: a gateway serves one model, {config.model.name}'
            raise ConfigError([Problem("configuration", f"endpoint[{at}].model", words)])
    folder = tokenizer_folder(config)
    model = ServedModel(
        id=ModelId(config.model.name),
        block_tokens=config.model.block_tokens,
        model_tokens_max=config.model.tokens_max,
        tokenizer=None if folder is None else Tokenizer.load(folder),
    )
    trusts = config.server.trust_tenant_header
    trusted = TrustedHeaders(
        tenant=config.server.tenant_header.lower() if trusts else None,
        service_class=config.server.class_header.lower() if trusts else None,
        classes=services(config),
    )
    return Served((model,), fleet, trusted)


def _limits(config: Config) -> Limits:
    server = config.server
    return Limits(
        connections=server.connections_max,
        body_bytes=server.body_bytes_max,
        head_bytes=server.header_bytes_max,
        head_s=server.header_timeout_s,
        body_s=server.body_timeout_s,
        idle_s=server.idle_timeout_s,
        connect_s=server.connect_timeout_s,
        engine_silence_s=server.engine_silence_s,
    )
