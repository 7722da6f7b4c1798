"""The metric scraper against a real HTTP server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.events import EndpointReported, EndpointUnreachable, Event
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.gateway.feeds import scrapes
from vicinal.gateway.feeds.scrapes import MetricScraper, pause_s

PAGE = (Path(__file__).parents[1] / "fixtures" / "vllm-0.32-cpu" / "metrics_prefill.txt").read_text()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Middle:
    def random(self) -> float:
        return 0.5


def endpoint(url: str) -> Endpoint:
    return Endpoint(
        id=EndpointId("p0"),
        url=url,
        role=Role.PREFILL,
        model=ModelId("m"),
        profile="x",
        kv_blocks=100,
        block_tokens=16,
        kv_bytes_per_token=1,
        model_tokens_max=1000,
        nic_bytes_per_s=1.0,
    )


@asynccontextmanager
async def scraper(
    handler: Handler, *, interval_s: float = 60.0, timeout_s: float | None = None
) -> AsyncIterator[tuple[MetricScraper, asyncio.Queue[Event]]]:
    app = web.Application()
    app.router.add_get("/metrics", handler)
    posted: asyncio.Queue[Event] = asyncio.Queue()
    stamps = count(10)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        subject = MetricScraper(
            endpoint(str(server.make_url("/"))),
            posted.put_nowait,
            lambda: float(next(stamps)),
            interval_s,
            Middle(),
            session,
            timeout_s=timeout_s,
        )
        try:
            yield subject, posted
        finally:
            await subject.stop()


async def page(request: web.Request) -> web.Response:
    return web.Response(text=PAGE)


async def test_a_page_becomes_a_report_stamped_when_the_scrape_was_sent() -> None:
    async with scraper(page) as (subject, posted):
        await subject.scrape()
        event = posted.get_nowait()
        assert isinstance(event, EndpointReported)
        assert (event.report.endpoint, event.report.scraped_s, event.report.kv_blocks) == ("p0", 10.0, 512)
        assert subject.counts == {"scrapes": 1, "reports": 1}


async def test_it_goes_on_scraping_until_stopped() -> None:
    async with scraper(page, interval_s=0.01, timeout_s=10.0) as (subject, posted):
        await subject.start()
        async with asyncio.timeout(10):
            stamps = [(await posted.get()).report.scraped_s for _ in range(3)]  # type: ignore[union-attr]
        assert stamps == [10.0, 11.0, 12.0]
        await subject.stop()
        await subject.stop()


@pytest.mark.parametrize(
    ("status", "text"), [(500, "status 500 from"), (404, "status 404 from"), (204, "status 204 from")]
)
async def test_another_status_than_200_is_unreachable(status: int, text: str) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=status)

    async with scraper(handler) as (subject, posted):
        await subject.scrape()
        event = posted.get_nowait()
        assert isinstance(event, EndpointUnreachable)
        assert text in event.reason


async def test_each_failure_is_posted_and_a_report_ends_the_row() -> None:
    answers = iter([503, 503, 200])

    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=next(answers), text=PAGE)

    async with scraper(handler) as (subject, posted):
        for _ in range(3):
            await subject.scrape()
        kinds = [type(posted.get_nowait()) for _ in range(3)]
        assert kinds == [EndpointUnreachable, EndpointUnreachable, EndpointReported]
        assert subject.counts == {"scrapes": 3, "failures": 2, "reports": 1}


async def test_a_silent_engine_times_out() -> None:
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    async with scraper(handler, timeout_s=0.05) as (subject, posted):
        await subject.scrape()
        assert posted.get_nowait() == EndpointUnreachable(EndpointId("p0"), "no metrics within 0.05 s")
        release.set()


async def test_stopping_abandons_a_scrape_under_way() -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        asked.set()
        await release.wait()
        return web.Response()

    async with scraper(handler) as (subject, posted):
        await subject.start()
        await asyncio.wait_for(asked.wait(), 10)
        await subject.stop()
        assert posted.empty()
        release.set()


async def test_a_refused_connection_is_unreachable(unused_tcp_port: int) -> None:
    posted: list[Event] = []
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{unused_tcp_port}"
        await MetricScraper(endpoint(url), posted.append, lambda: 0.0, 1.0, Middle(), session).scrape()
    assert isinstance(posted[0], EndpointUnreachable)
    assert "metrics cannot be read: " in posted[0].reason


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "[::1", "h\u2024\u2024st", ".", "a b"])
async def test_a_host_that_is_no_name_is_unreachable_and_scraping_goes_on(host: str) -> None:
    posted: asyncio.Queue[Event] = asyncio.Queue()
    async with aiohttp.ClientSession() as session:
        subject = MetricScraper(
            endpoint(f"http://{host}:8000"), posted.put_nowait, lambda: 0.0, 0.01, Middle(), session, timeout_s=5.0
        )
        await subject.start()
        async with asyncio.timeout(20):
            events = [await posted.get() for _ in range(2)]
        await subject.stop()
    assert all(isinstance(event, EndpointUnreachable) for event in events)


async def test_a_page_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrapes, "PAGE_BYTES_MAX", 1000)
    async with scraper(page) as (subject, posted):
        await subject.scrape()
        event = posted.get_nowait()
        assert isinstance(event, EndpointUnreachable)
        assert "more than 1000 bytes" in event.reason


def test_pauses_double_up_to_four_intervals_and_spread_by_a_tenth() -> None:
    assert [pause_s(2.0, failures, 0.5) for failures in range(6)] == [2.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert pause_s(2.0, 0, 0.0) == pytest.approx(1.8)
    assert pause_s(2.0, 0, 1.0) == pytest.approx(2.2)
