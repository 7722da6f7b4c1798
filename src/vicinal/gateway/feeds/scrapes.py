"""Scrapes one engine's metrics page, or whatever its dialect takes for a sign of life, and posts what it says.

Every scrape ends in exactly one event: `EndpointReported`, or `EndpointUnreachable` with the reason (so a failing
endpoint is reported at each failure, not only at the first). Scrapes are spread by jitter, so that a fleet is not
asked in step, and after failures the pause doubles up to `BACKOFF_MAX` intervals: a page costs its engine time.

A report is stamped with the moment its scrape was *sent*: it never claims to be fresher than it is.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import aiohttp

from vicinal.domain.chance import Stream
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import EndpointReported, EndpointUnreachable, Event
from vicinal.engines.registry import dialect
from vicinal.gateway.backoff import doubled

log = logging.getLogger(__name__)

JITTER = 0.1
"""A pause is its nominal length times a factor in [1 - JITTER, 1 + JITTER)."""

BACKOFF_MAX = 4.0
"""The longest nominal pause between failing scrapes, in intervals."""

PAGE_BYTES_MAX = 8 << 20


def pause_s(interval_s: float, failures: int, chance: float) -> float:
    """The pause after `failures` failed scrapes in a row; `chance` is uniform in [0, 1)."""
    nominal = doubled(interval_s, max(0, failures - 1), interval_s * BACKOFF_MAX)
    return nominal * (1.0 + JITTER * (2.0 * chance - 1.0))


class MetricScraper:
    """Asks `endpoint` for its page every `interval_s`, starting at once; its dialect says which, and reads it.

    `timeout_s` bounds one scrape, by default one interval. `session` stays the caller's. `counts` has scrapes, reports,
    failures.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        post: Callable[[Event], None],
        now: Callable[[], float],
        interval_s: float,
        jitter: Stream,
        session: aiohttp.ClientSession,
        *,
        timeout_s: float | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._endpoint = endpoint
        speaks = dialect(endpoint.dialect)
        self._url = endpoint.url.rstrip("/") + speaks.sign_path
        self._answers_alive = speaks.answers_alive
        self._post = post
        self._now = now
        self._interval_s = interval_s
        self._jitter = jitter
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=interval_s if timeout_s is None else timeout_s)
        self._read = speaks.report_of(endpoint)
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"scrape-{self._endpoint.id}")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Abandon a scrape under way. Does nothing the second time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def scrape(self) -> None:
        """One scrape and its one event."""
        sent_s = self._now()
        self.counts["scrapes"] += 1
        try:
            page = await self._page()
        except TimeoutError:
            self._failed(f"no metrics within {self._timeout.total:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a host that is no name at all is a ValueError
            self._failed(f"metrics cannot be read: {error or type(error).__name__}")
        else:
            self._failures = 0
            self.counts["reports"] += 1
            self._post(EndpointReported(self._read(page, self._endpoint.id, sent_s)))

    async def _page(self) -> str:
        async with self._session.get(self._url, timeout=self._timeout, headers={"Accept": "text/plain"}) as answer:
            if not self._answers_alive(answer.status):
                raise aiohttp.ClientError(f"status {answer.status} from {self._url}")
            page = bytearray()
            async for chunk in answer.content.iter_any():
                page += chunk
                if len(page) > PAGE_BYTES_MAX:
                    raise aiohttp.ClientError(f"more than {PAGE_BYTES_MAX} bytes from {self._url}")
        return page.decode("utf-8", "replace")

    def _failed(self, reason: str) -> None:
        self._failures += 1
        self.counts["failures"] += 1
        self._post(EndpointUnreachable(self._endpoint.id, reason))

    async def _run(self) -> None:
        await self.scrape()
        # All are first asked at the same moment. They must not stay in step: the loop would stand still for as long as
        # all of their answers take to read.
        await asyncio.sleep(self._interval_s * self._jitter.random())
        while True:
            await self.scrape()
            await asyncio.sleep(pause_s(self._interval_s, self._failures, self._jitter.random()))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("scraping %s ended", self._endpoint.id, exc_info=error)
