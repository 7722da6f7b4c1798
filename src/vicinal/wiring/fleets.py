"""One fleet of two sources: the [[endpoint]] tables of the file, which may be edited, and pods, which come and go."""

import asyncio
import logging
from collections.abc import Mapping

import aiohttp
import numpy as np
from msgspec.structs import replace

from vicinal.config.cluster import endpoints
from vicinal.config.fleet import Config
from vicinal.config.fleet import Endpoint as Entry
from vicinal.domain.chance import Stream
from vicinal.domain.events import EndpointReported, Event
from vicinal.enginemodel.profiles import profile
from vicinal.gateway.discovery.api import KubernetesApi
from vicinal.gateway.discovery.pod_watch import PodWatch
from vicinal.gateway.discovery.pods import Sighting
from vicinal.gateway.feeds.scrapes import MetricScraper
from vicinal.wiring.live import LiveSystem, scrape_s
from vicinal.wiring.pods import api_address, entry_of, pod_defaults, together

log = logging.getLogger("vicinal")

SHARE_MAX = 0.1
"""Of the time, what changes may take: nothing else is decided meanwhile, and in a roll-out pods change all the time."""

REST_S_MAX = 30.0


class FleetSources:
    """Tells a live system which endpoints there are. Made before the system starts, inside its event loop.

    A pod that does not say how many KV blocks its engine has is asked for its metrics, and joins the fleet when they
    have told. Raises ValueError or OSError for a Kubernetes section that cannot be followed.
    """

    def __init__(self, config: Config, live: LiveSystem, environ: Mapping[str, str]) -> None:
        self._config = config
        self._live = live
        self._seen: list[Sighting] = []
        self._learned: dict[str, int] = {}
        self._asked: dict[str, MetricScraper] = {}
        self._told: set[str] = set()
        self._turn = asyncio.Lock()
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._pods: PodWatch | None = None
        self._jitter: Stream = np.random.default_rng(config.scheduler.seed)
        section = config.kubernetes
        if section.selector:
            profile(section.profile or config.model.profile)
            address = api_address(section, environ)
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
            self._pods = pods = PodWatch(
                KubernetesApi(address, section.selector, self._session),
                pod_defaults(section),
                self.seen,
                self._jitter,
                nodes=section.node_places,
            )
            live.metrics.count("discovery_events", "What following the pods met", lambda: pods.counts)

    def start(self) -> None:
        if self._pods is not None:
            self._pods.start()
            self._task = asyncio.create_task(self._run(), name="fleet-sources")
            self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        if self._pods is not None:
            await self._pods.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for scraper in self._asked.values():
            await scraper.stop()
        if self._session is not None:
            await self._session.close()

    async def take_over(self, config: Config) -> None:
        """The file's tables are now those of `config`. Raises ValueError, and changes nothing, when they cannot be."""
        async with self._turn:
            before, self._config = self._config, config
            try:
                await self._renew()
            except ValueError:
                self._config = before
                raise

    async def seen(self, sightings: list[Sighting]) -> None:
        """The pods' engines are now exactly these."""
        self._seen = sightings
        self._due.set()

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            began_s = asyncio.get_running_loop().time()
            async with self._turn:
                try:
                    await self._renew()
                except ValueError as error:
                    log.error("the pods are not taken over, the fleet stays as it was:\n%s", error)
            took_s = asyncio.get_running_loop().time() - began_s
            await asyncio.sleep(min(REST_S_MAX, took_s * (1.0 / SHARE_MAX - 1.0)))

    async def _renew(self) -> None:
        section = self._config.kubernetes
        lives = {f"{seen.uid}/{seen.name}": seen for seen in self._seen}
        known = {life: seen.kv_blocks or self._learned.get(life) for life, seen in lives.items()}
        self._learned = {life: blocks for life, blocks in self._learned.items() if life in lives}
        for life in [life for life in self._asked if life not in known or known[life]]:
            await self._asked.pop(life).stop()
        for life, seen in lives.items():
            if not known[life] and life not in self._asked:
                await self._ask(life, entry_of(section, seen, 1))
        entries = [entry_of(section, seen, known[life]) for life, seen in lives.items() if known[life]]
        merged, refused = together(self._config, entries)
        for name, text in refused.items():
            self._tell_once(f"pod {name} is left out: {text}")
        await self._live.take_over(merged)

    async def _ask(self, life: str, entry: Entry) -> None:
        """Scrape an engine that has no place in the fleet yet."""
        (endpoint,) = endpoints(replace(self._config, endpoint=(entry,)))

        def heard(event: Event) -> None:
            if not isinstance(event, EndpointReported):
                return
            if event.report.kv_blocks:
                self._learned[life] = event.report.kv_blocks
                self._due.set()
            else:
                self._tell_once(
                    f"pod {entry.id} waits: its metrics do not say how many KV blocks it has; give its pod the "
                    "annotation vicinal/kv-blocks, or set kubernetes.kv_blocks"
                )

        every_s = scrape_s(self._config.scheduler.heartbeat_s, 1.0)
        scraper = MetricScraper(
            endpoint, heard, lambda: 0.0, every_s, self._jitter, self._live.session, timeout_s=max(1.0, every_s)
        )
        self._asked[life] = scraper
        await scraper.start()

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            if len(self._told) > 10_000:  # pods come and go for years
                self._told.clear()
            self._told.add(text)
            log.warning("%s", text)


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("taking over pods ended", exc_info=error)
