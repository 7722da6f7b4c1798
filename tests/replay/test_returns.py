"""The load client comes back after refusals, as it is told to, and says whose request each was."""

from collections import Counter
from dataclasses import replace

import pytest
from aiohttp import web

from tests.replay.test_client import END, TOKEN, arrival, serving, stream
from vicinal.replay.answer import Fate, Progress
from vicinal.replay.client import ReplayClient
from vicinal.workload.returns import Returns

SPEED = 200.0


async def sent(returns: Returns, refusals: int, *, status: int = 503, retry_after: str | None = "3"):
    """The answers of two requests, each refused so many times, the ids that came, and the last progress."""
    seen: Counter[str] = Counter()
    ids: list[str] = []
    told: list[Progress] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        request_id = request.headers["X-Request-Id"]
        ids.append(request_id)
        seen[request_id.partition("-try")[0]] += 1
        if seen[request_id.partition("-try")[0]] <= refusals:
            headers = {} if retry_after is None else {"Retry-After": retry_after}
            return web.json_response({"error": {"message": "full"}}, status=status, headers=headers)
        return await stream(request, TOKEN, END)

    async with serving(handler) as url:
        client = ReplayClient(url, "m", request_prefix="r", speed=SPEED, returns=returns)
        answers = await client.run([arrival(0.0, "a"), arrival(1.0, "b")], on_progress=told.append)
    return answers, ids, told[-1]


async def test_a_refused_request_is_sent_again_after_what_it_was_told():
    answers, ids, last = await sent(Returns(tries_max=5), 2)
    assert [(answer.request_id, answer.tries, answer.fate) for answer in answers] == [
        (f"r-{n}{suffix}", tries, fate)
        for n in (0, 1)
        for tries, (suffix, fate) in enumerate([("", Fate.SHED), ("-try2", Fate.SHED), ("-try3", Fate.COMPLETED)], 1)
    ]
    assert sorted(ids) == sorted(answer.request_id for answer in answers)
    assert [answer.retry_after_s for answer in answers[:3]] == [3.0, 3.0, None]
    for before, after in ((answers[0], answers[1]), (answers[1], answers[2])):
        assert after.due_s >= before.sent_s + 3.0 / SPEED
    assert [answer.tenant for answer in answers] == ["a"] * 3 + ["b"] * 3
    assert (last.sent, last.completed, last.shed) == (2, 2, 0)


async def test_who_does_not_honour_comes_back_after_a_pause_of_its_own():
    answers, _, _ = await sent(Returns(tries_max=2, honours=False, pause_s=0.1), 1, retry_after="60000")
    assert [answer.fate for answer in answers] == [Fate.SHED, Fate.COMPLETED] * 2
    assert answers[1].sent_s - answers[0].sent_s < 60.0


@pytest.mark.parametrize("retry_after", [None, "Wed, 21 Oct 2015 07:28:00 GMT", "-1"])
async def test_without_whole_seconds_it_comes_back_after_its_pause(retry_after):
    answers, _, _ = await sent(Returns(tries_max=2, pause_s=0.1), 1, retry_after=retry_after)
    assert [answer.retry_after_s for answer in answers] == [None] * 4
    assert answers[1].fate is Fate.COMPLETED


async def test_it_gives_up_at_last_and_at_once_where_coming_back_is_useless():
    answers, ids, last = await sent(Returns(tries_max=3), 99)
    assert len(ids) == 6
    assert {answer.fate for answer in answers} == {Fate.SHED}
    assert (last.shed, last.completed) == (2, 0)
    answers, ids, _ = await sent(Returns(tries_max=3), 99, status=400)
    assert ids == ["r-0", "r-1"]
    assert {answer.fate for answer in answers} == {Fate.FAILED}


async def test_headers_say_tenant_and_class():
    seen = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers.get("x-tenant"), request.headers.get("x-class")))
        return await stream(request, TOKEN, END)

    async with serving(handler) as url:
        client = ReplayClient(url, "m", tenant_header="x-tenant", class_header="x-class")
        (answer, _) = await client.run([replace(arrival(0.0, "a"), service="batch"), arrival(0.01)])
    assert seen == [("a", "batch"), (None, None)]
    assert (answer.tenant, answer.service) == ("a", "batch")
