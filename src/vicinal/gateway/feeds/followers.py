"""The feeds of a whole fleet, started and stopped as endpoints come and go."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import aiohttp
import zmq
import zmq.asyncio

from vicinal.domain.chance import Stream
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import Event
from vicinal.domain.ids import EndpointId
from vicinal.gateway.feeds.kv_events import KvEventFeed
from vicinal.gateway.feeds.scrapes import MetricScraper

log = logging.getLogger(__name__)

Counted = Callable[[EndpointId, str, Mapping[str, int]], None]
"""Told of each feed's own counters when it begins: endpoint, feed ("scrapes" or "kv_events"), counts."""


class Followers:
    """One scraper per endpoint, and a KV event feed where it has an address for one. Use it inside an event loop.

    `post` gets what they hear. `interval_s` is wall seconds between scrapes, and the measure of the feeds' patience.
    `session` stays the caller's.
    """

    def __init__(
        self,
        post: Callable[[Event], None],
        now: Callable[[], float],
        interval_s: float,
        jitter: Stream,
        session: aiohttp.ClientSession,
        counted: Counted,
    ) -> None:
        self.scrapers: dict[EndpointId, MetricScraper] = {}
        self.feeds: dict[EndpointId, KvEventFeed] = {}
        self._followed: dict[EndpointId, Endpoint] = {}
        self._post = post
        self._now = now
        self._interval_s = interval_s
        self._jitter = jitter
        self._counted = counted
        self._session = session
        self._context = zmq.asyncio.Context()
        self._context.set(zmq.MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT))  # three per feed; 1,023 by default

    async def leave(self, fleet: Iterable[Endpoint]) -> None:
        """Stop following what is not in `fleet` exactly as it was: from here on nothing is heard of it."""
        kept = {endpoint.id: endpoint for endpoint in fleet}
        for name in [name for name, endpoint in self._followed.items() if kept.get(name) != endpoint]:
            del self._followed[name]
            await self.scrapers.pop(name).stop()
            if (feed := self.feeds.pop(name, None)) is not None:
                await feed.stop()

    async def join(self, fleet: Iterable[Endpoint]) -> None:
        """Follow those of `fleet` that are not followed yet."""
        for endpoint in fleet:
            if endpoint.id not in self._followed:
                self._followed[endpoint.id] = endpoint
                await self._scrape(endpoint)
                if endpoint.events_url:
                    await self._hear(endpoint)

    async def stop(self) -> None:
        await self.leave(())
        self._context.destroy(linger=0)

    async def _scrape(self, endpoint: Endpoint) -> None:
        scraper = MetricScraper(
            endpoint,
            self._post,
            self._now,
            self._interval_s,
            self._jitter,
            self._session,
            timeout_s=max(1.0, self._interval_s),
        )
        self.scrapers[endpoint.id] = scraper
        self._counted(endpoint.id, "scrapes", scraper.counts)
        await scraper.start()

    async def _hear(self, endpoint: Endpoint) -> None:
        """An address that cannot be followed is said. The endpoint serves all the same; what it holds is unknown."""
        try:
            feed = KvEventFeed(
                endpoint,
                self._post,
                self._jitter,
                context=self._context,
                replay_timeout_s=self._interval_s / 2,
                quiet_s=self._interval_s,
            )
            await feed.start()
        except (zmq.ZMQError, ValueError) as error:
            log.error("the KV events of %s at %s cannot be followed: %s", endpoint.id, endpoint.events_url, error)
            self._counted(endpoint.id, "kv_events", Counter(unfollowed=1))
            return
        self.feeds[endpoint.id] = feed
        self._counted(endpoint.id, "kv_events", feed.counts)
