"""Sends a workload at its own times to an OpenAI-compatible server.

Arrivals are an open loop: a slow answer delays none of them. The later turns of an arrival are a closed loop: each is
sent when the request before it is over, however it ended, and its pause has passed. A request that is refused may be
sent again. Model time t is due at `origin + t / speed` on the wall. A body is made before its request is due, so that
making it does not make it late.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

import aiohttp

from vicinal.replay.answer import Answer, Fate, Progress
from vicinal.replay.body import encode_body
from vicinal.replay.exchange import Exchange
from vicinal.workload.arrival import Arrival, requests
from vicinal.workload.returns import ONCE, Returns


class ReplayClient:
    """A load client for one server and one run. `answers` has those that are in, also after a cancelled `run`.

    `speed` is how many model seconds pass in a wall second. Requests are named `{request_prefix}-{n}` from 0, in the
    order of the workload, later turns right after their arrival, and `…-{n}-try{k}` when they are sent again, as
    `returns` says: waits count in model time. `tenant_header` and `class_header`, when given, carry each arrival's
    tenant and class of service. A stream that is silent for `silence_s_max` wall seconds has failed.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        speed: float = 1.0,
        request_prefix: str = "replay",
        tenant_header: str | None = None,
        class_header: str | None = None,
        returns: Returns = ONCE,
        silence_s_max: float = 600.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url.rstrip("/") + "/v1/completions"
        self.model = model
        self.speed = speed
        self.request_prefix = request_prefix
        self.tenant_header = tenant_header
        self.class_header = class_header
        self.returns = returns
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=silence_s_max)
        self._now = now
        self._answers: dict[tuple[int, int], Answer] = {}
        self._fates: Counter[Fate] = Counter()
        self._sent = 0

    @property
    def answers(self) -> list[Answer]:
        """The answers that are in, in the order of the workload, tries of one errand one after the other."""
        return [answer for _, answer in sorted(self._answers.items())]

    async def run(
        self,
        arrivals: Sequence[Arrival],
        *,
        origin_s: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> list[Answer]:
        """Sends all of `arrivals`, which ascend in time, and waits for their ends; answers come in that order.

        `origin_s` is the wall instant of model time 0, now by default. `on_progress` is called after each sending and
        each end. Cancelling it closes all connections; `answers` keeps what is in by then.
        """
        origin_s = self._now() if origin_s is None else origin_s
        total = requests(arrivals)

        def report() -> None:
            if on_progress:
                on_progress(self.progress(total))

        async def due(arrival: Arrival) -> tuple[bytes, float]:
            """The body of a request and its wall instant, when that has come."""
            body = encode_body(self.model, arrival)
            due_s = origin_s + arrival.at_s / self.speed
            await asyncio.sleep(max(0.0, due_s - self._now()))
            self._sent += 1
            return body, due_s

        async def play(number: int, arrival: Arrival, body: bytes, due_s: float) -> None:
            """One request and, each after the answer before it, the turns that wait for it."""
            while True:
                answer = await self._errand(session, number, arrival, body, due_s)
                self._fates[answer.fate] += 1
                report()
                following = arrival.following((self._now() - origin_s) * self.speed)
                if following is None:
                    return
                number, arrival = number + 1, following
                body, due_s = await due(arrival)
                report()

        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            ) as session,
            asyncio.TaskGroup() as group,
        ):
            number = 0
            for arrival in arrivals:
                body, due_s = await due(arrival)
                group.create_task(play(number, arrival, body, due_s))
                number += 1 + len(arrival.later)
                report()
        return self.answers

    def progress(self, total: int) -> Progress:
        """How far it is, of `total` requests."""
        fates = self._fates
        return Progress(total, self._sent, fates[Fate.COMPLETED], fates[Fate.SHED], fates[Fate.FAILED])

    async def _errand(
        self, session: aiohttp.ClientSession, number: int, arrival: Arrival, body: bytes, due_s: float
    ) -> Answer:
        """One request, and those that follow its refusal; the last answer."""
        tries = 1
        while True:
            exchange = Exchange(self._name(number, tries), arrival, tries, due_s, self._now())
            answer = self._answers[number, tries] = await self._exchange(session, exchange, body)
            again = answer.fate is Fate.SHED
            wait_s = self.returns.wait_s(answer.retry_after_s, tries) if again else None
            if wait_s is None:
                return answer
            due_s = self._now() + wait_s / self.speed
            await asyncio.sleep(wait_s / self.speed)
            tries += 1

    def _name(self, number: int, tries: int) -> str:
        name = f"{self.request_prefix}-{number}"
        return name if tries == 1 else f"{name}-try{tries}"

    async def _exchange(self, session: aiohttp.ClientSession, exchange: Exchange, body: bytes) -> Answer:
        headers = {"Content-Type": "application/json", "X-Request-Id": exchange.request_id}
        arrival = exchange.arrival
        if self.tenant_header and arrival.tenant:
            headers[self.tenant_header] = arrival.tenant
        if self.class_header and arrival.service:
            headers[self.class_header] = arrival.service
        try:
            async with session.post(self.url, data=body, headers=headers) as response:
                exchange.began(response.status, response.headers.get("Retry-After"))
                async for data in response.content.iter_any():
                    exchange.chunk(data, self._now())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            exchange.broken = f"{type(error).__name__}: {error}".rstrip(": ")
        return exchange.answer()
