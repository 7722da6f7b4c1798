"""The client against a small server on a real socket: what it sends, and how it judges each way an answer can end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest
from aiohttp import web

from vicinal.replay.answer import Answer, Fate, Progress
from vicinal.replay.client import ReplayClient
from vicinal.workload.arrival import Arrival, Turn
from vicinal.workload.prompt import Piece, Prompt, Vocabulary

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":6,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":4}}}'
)
TOKEN = b'data: {"choices":[{"index":0,"text":"x","finish_reason":null}]}\n\n'
END = USAGE + b"\n\ndata: [DONE]\n\n"


def arrival(at_s: float = 0.0, tenant: str | None = None) -> Arrival:
    return Arrival(at_s, Prompt((Piece(1, 4), Piece(2, 2)), Vocabulary(5, 1024)), 2, tenant=tenant)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/v1/completions", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def stream(request: web.Request, *chunks: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    return response


async def answered(*chunks: bytes) -> Answer:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, *chunks)

    async with serving(handler) as url:
        (answer,) = await ReplayClient(url, "m").run([arrival()])
    return answer


async def test_what_is_sent_and_what_comes_of_it() -> None:
    seen: list[tuple[dict[str, object], str, str | None]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read())
        seen.append((body, request.headers["X-Request-Id"], request.headers.get("x-vicinal-tenant")))
        return await stream(request, TOKEN, TOKEN, END)

    async with serving(handler) as url:
        client = ReplayClient(url + "/", "m", request_prefix="r", tenant_header="x-vicinal-tenant", speed=1000.0)
        answers = await client.run([arrival(0.0, "a"), arrival(1.0), arrival(50.0, "b")])

    assert [(request_id, tenant) for _, request_id, tenant in sorted(seen, key=lambda each: each[1])] == [
        ("r-0", "a"),
        ("r-1", None),
        ("r-2", "b"),
    ]
    assert seen[0][0] == {
        "model": "m",
        "prompt": arrival().prompt_token_ids.tolist(),
        "max_tokens": 2,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert [answer.request_id for answer in answers] == ["r-0", "r-1", "r-2"]
    for answer in answers:
        assert (answer.fate, answer.status, answer.error) == (Fate.COMPLETED, 200, None)
        assert (answer.prompt_tokens, answer.output_tokens, answer.cached_tokens) == (6, 2, 4)
        assert answer.first_s is not None
        assert answer.last_s is not None
        assert answer.sent_s <= answer.first_s <= answer.last_s


async def test_requests_leave_at_their_time_of_the_model_clock_and_never_before() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, END)

    async with serving(handler) as url:
        loop = asyncio.get_running_loop()
        origin_s = loop.time() + 0.05
        client = ReplayClient(url, "m", speed=100.0, now=loop.time)
        answers = await client.run([arrival(0.0), arrival(3.0), arrival(6.0)], origin_s=origin_s)
    assert [answer.due_s - origin_s for answer in answers] == pytest.approx([0.0, 0.03, 0.06])
    assert all(answer.sent_s >= answer.due_s - 1e-3 for answer in answers)


async def test_a_slow_answer_delays_no_later_request() -> None:
    both = asyncio.Barrier(3)

    async def handler(request: web.Request) -> web.StreamResponse:
        await both.wait()
        return await stream(request, END)

    async with serving(handler) as url, asyncio.timeout(20):
        answers = await ReplayClient(url, "m").run([arrival(), arrival(), arrival()])
    assert [answer.fate for answer in answers] == [Fate.COMPLETED] * 3


async def test_a_later_turn_waits_for_the_answer_before_it_and_its_pause() -> None:
    """One session of three turns, the second refused, beside one request that is slower than all of them."""
    answered_s: dict[str, float] = {}
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def handler(request: web.Request) -> web.StreamResponse:
        name = request.headers["X-Request-Id"]
        if name == "replay-3":
            await over.wait()
        answered_s[name] = loop.time()
        if name == "replay-1":
            return web.Response(status=503)
        if name == "replay-2":
            over.set()
        return await stream(request, END)

    turns = tuple(
        Turn(pause_s, Prompt((Piece(1, 4 + n),), Vocabulary(5, 9)), 2) for n, pause_s in enumerate((3.0, 5.0))
    )
    heard: list[Progress] = []
    async with serving(handler) as url, asyncio.timeout(20):
        client = ReplayClient(url, "m", speed=100.0, now=loop.time)
        origin_s = loop.time()
        session = replace(arrival(), later=turns)
        answers = await client.run([session, arrival(0.5)], origin_s=origin_s, on_progress=heard.append)
    assert [a.request_id for a in answers] == [f"replay-{n}" for n in range(4)]
    assert [a.fate for a in answers] == [Fate.COMPLETED, Fate.SHED, Fate.COMPLETED, Fate.COMPLETED]
    for n, turn in enumerate(turns):
        due_s = answers[n + 1].due_s
        assert due_s >= answered_s[f"replay-{n}"] + turn.pause_s / 100.0
        assert answers[n + 1].sent_s >= due_s - 1e-3
        assert answers[n + 1].at_s == pytest.approx((due_s - origin_s) * 100.0)
    assert heard[-1] == Progress(total=4, sent=4, completed=3, shed=1, failed=0)


async def test_chunks_may_be_cut_anywhere_and_be_many() -> None:
    whole = TOKEN * 3000 + END
    answer = await answered(*(whole[at : at + 7001] for at in range(0, len(whole), 7001)))
    assert (answer.fate, answer.output_tokens) == (Fate.COMPLETED, 2)


async def test_an_error_event_fails_a_request_also_when_done_follows() -> None:
    error = b'data: {"error":{"message":"engine died","type":"x","code":502}}\n\n'
    for tail in (b"", b"data: [DONE]\n\n"):
        answer = await answered(TOKEN, error + tail)
        assert (answer.fate, answer.status, answer.error) == (Fate.FAILED, 200, "engine died")


async def test_a_stream_that_just_stops_has_failed() -> None:
    answer = await answered(TOKEN, TOKEN)
    assert (answer.fate, answer.error) == (Fate.FAILED, "the stream ended without [DONE]")
    assert answer.first_s is not None


async def test_a_connection_that_breaks_has_failed() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await stream(request, TOKEN)
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(handler) as url:
        (answer,) = await ReplayClient(url, "m").run([arrival()])
    assert answer.fate is Fate.FAILED
    assert answer.status == 200
    assert answer.error


@pytest.mark.parametrize(
    ("status", "body", "fate", "error"),
    [
        (429, '{"error":{"message":"queue full"}}', Fate.SHED, "HTTP 429: queue full"),
        (503, '{"error":"none"}', Fate.SHED, "HTTP 503: none"),
        (500, "oops", Fate.FAILED, "HTTP 500: oops"),
        (400, '{"detail":[1]}', Fate.FAILED, 'HTTP 400: {"detail":[1]}'),
    ],
)
async def test_refusals_are_told_from_failures(status: int, body: str, fate: Fate, error: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body)

    async with serving(handler) as url:
        (answer,) = await ReplayClient(url, "m").run([arrival()])
    assert (answer.status, answer.fate, answer.error) == (status, fate, error)


async def test_nobody_there_and_silence() -> None:
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await stream(request, TOKEN)
        await release.wait()
        return response

    async with serving(handler) as url:
        (silent,) = await ReplayClient(url, "m", silence_s_max=0.05).run([arrival()])
        release.set()
    (nobody,) = await ReplayClient(url, "m").run([arrival()])
    assert (silent.fate, silent.status) == (Fate.FAILED, 200)
    assert "Timeout" in (silent.error or "")
    assert (nobody.fate, nobody.status) == (Fate.FAILED, None)
    assert "Connect" in (nobody.error or "")


async def test_a_cancelled_run_closes_its_connections_and_keeps_what_it_has() -> None:
    hanging, gone = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["X-Request-Id"] == "replay-0":
            return await stream(request, END)
        response = await stream(request, TOKEN)
        hanging.set()
        try:
            while True:
                await response.write(TOKEN)
                await asyncio.sleep(0.001)
        except OSError:
            gone.set()
            raise

    first_over = asyncio.Event()

    def progress(now: Progress) -> None:
        if now.completed:
            first_over.set()

    async with serving(handler) as url, asyncio.timeout(20):
        client = ReplayClient(url, "m")
        run = asyncio.create_task(client.run([arrival(), arrival(), arrival(10_000.0)], on_progress=progress))
        await hanging.wait()
        await first_over.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await gone.wait()
    assert [answer.request_id for answer in client.answers] == ["replay-0"]


async def test_progress_counts_each_sending_and_each_end() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["X-Request-Id"] == "replay-1":
            return web.Response(status=429)
        return await stream(request, END)

    seen: list[Progress] = []
    async with serving(handler) as url:
        await ReplayClient(url, "m").run([arrival(), arrival()], on_progress=seen.append)
    assert len(seen) == 4
    assert seen[-1] == Progress(total=2, sent=2, completed=1, shed=1, failed=0)
