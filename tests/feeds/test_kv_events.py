"""The KV event feed over real ZMQ sockets, against a small engine that publishes, buffers and replays."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import msgspec
import pytest
import uvloop
import zmq
import zmq.asyncio

from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.events import BlocksCleared, BlocksStored, Event
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.gateway.feeds.kv_events import KvEventFeed

WAIT_S = 10.0


class Middle:
    def random(self) -> float:
        return 0.5


class Publisher:
    """Speaks as vLLM's publisher does. XPUB instead of PUB, so that a test can await the subscription."""

    def __init__(self, buffered: int = 100, events_url: str = "", replay_url: str = "") -> None:
        self._context = zmq.asyncio.Context()
        self._pub = self._bound(zmq.XPUB, events_url)
        self._router = self._bound(zmq.ROUTER, replay_url)
        self.events_url = self._pub.getsockopt_string(zmq.LAST_ENDPOINT)
        self.replay_url = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffered)
        self.next = 0
        self.stamp = 0.0
        self.asked: list[int] = []
        self.asked_once = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self._service = asyncio.create_task(self._serve())

    def _bound(self, kind: int, url: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.bind(url or "tcp://127.0.0.1:*")
        return socket

    async def subscribed(self) -> None:
        while (await asyncio.wait_for(self._pub.recv(), WAIT_S)) != b"\x01":
            pass

    def batch(self, *hashes: int) -> bytes:
        self.stamp += 1
        return msgspec.msgpack.encode(
            [self.stamp, [["BlockStored", [h], None, [h], 1, None, "GPU"] for h in hashes], 0]
        )

    async def publish(self, *hashes: int, lost: bool = False) -> None:
        payload, number = self.batch(*hashes), self.next
        self.next += 1
        self._buffer.append((number, payload))
        if not lost:
            await self.send([b"kv-events", number.to_bytes(8, "big"), payload])

    async def send(self, frames: list[bytes]) -> None:
        await self._pub.send_multipart(frames)

    def restart(self) -> None:
        """Begin anew behind the same sockets, as a fast restart looks from outside."""
        self.next = 0
        self._buffer.clear()

    async def _serve(self) -> None:
        while True:
            client, _, start = await self._router.recv_multipart()
            self.asked.append(int.from_bytes(start, "big"))
            self.asked_once.set()
            await self.answers.wait()
            for number, payload in list(self._buffer):
                if number >= self.asked[-1]:
                    await self._router.send_multipart([client, b"", b"kv-events", number.to_bytes(8, "big"), payload])
            await self._router.send_multipart([client, b"", b"", b"\xff" * 8, b""])

    async def close(self) -> None:
        self._service.cancel()
        with suppress(asyncio.CancelledError):
            await self._service
        self._context.destroy(linger=0)


class Posted:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def post(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    async def until(self, done: Callable[["Posted"], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not done(self):
                self._more.clear()
                await self._more.wait()

    async def stored(self, *hashes: int) -> None:
        await self.until(lambda p: p.hashes() == list(hashes))

    def hashes(self) -> list[object]:
        return [h for e in self.events if isinstance(e, BlocksStored) for h in e.hashes]

    def cleared(self) -> list[BlocksCleared]:
        return [e for e in self.events if isinstance(e, BlocksCleared)]


def endpoint(publisher: Publisher, *, replay: bool = True) -> Endpoint:
    return Endpoint(
        id=EndpointId("p0"),
        url="http://127.0.0.1:1",
        role=Role.PREFILL,
        model=ModelId("m"),
        profile="x",
        kv_blocks=100,
        block_tokens=16,
        kv_bytes_per_token=1,
        model_tokens_max=1000,
        nic_bytes_per_s=1.0,
        events_url=publisher.events_url,
        replay_url=publisher.replay_url if replay else "",
    )


@asynccontextmanager
async def followed(
    publisher: Publisher, *, replay: bool = True, replay_timeout_s: float = WAIT_S, quiet_s: float = 60.0
) -> AsyncIterator[tuple[KvEventFeed, Posted]]:
    posted = Posted()
    feed = KvEventFeed(
        endpoint(publisher, replay=replay),
        posted.post,
        Middle(),
        replay_timeout_s=replay_timeout_s,
        quiet_s=quiet_s,
    )
    await feed.start()
    try:
        yield feed, posted
    finally:
        await feed.stop()
        await publisher.close()


async def test_batches_in_order_arrive_as_events_in_order() -> None:
    engine = Publisher()
    async with followed(engine, replay=False) as (feed, posted):
        await engine.subscribed()
        for number in range(5):
            await engine.publish(2 * number, 2 * number + 1)
        await posted.stored(*range(10))
        assert [(e.incarnation, e.sequence) for e in posted.events] == [(0, n // 2) for n in range(10)]
        assert feed.counts["batches"] == 5
        assert feed.counts["gaps"] == 0


async def test_a_late_feed_learns_what_the_engine_still_buffers() -> None:
    engine = Publisher(buffered=3)
    for number in range(5):
        await engine.publish(number, lost=True)
    async with followed(engine) as (feed, posted):
        await posted.stored(2, 3, 4)
        assert engine.asked == [0]
        assert posted.cleared() == []
        await engine.publish(5)
        await posted.stored(2, 3, 4, 5)
        assert feed.counts["lost_batches"] == 2


async def test_a_gap_is_replayed_in_order() -> None:
    engine = Publisher()
    async with followed(engine) as (feed, posted):
        await engine.subscribed()
        await engine.publish(0)
        await posted.stored(0)
        await engine.publish(1, lost=True)
        await engine.publish(2, lost=True)
        await engine.publish(3)
        await posted.stored(0, 1, 2, 3)
        async with asyncio.timeout(WAIT_S):
            while feed.counts["repeats"] < 2:  # what came twice is counted after the last event is posted
                await asyncio.sleep(0.001)
        assert posted.cleared() == []
        assert (feed.counts["gaps"], feed.counts["lost_batches"], feed.counts["repeats"]) == (1, 0, 2)


async def test_live_batches_wait_while_a_replay_is_under_way() -> None:
    engine = Publisher()
    async with followed(engine) as (_, posted):
        await engine.subscribed()
        await engine.publish(0)
        await posted.stored(0)
        engine.answers.clear()
        engine.asked_once.clear()
        await engine.publish(1, lost=True)
        await engine.publish(2)
        await asyncio.wait_for(engine.asked_once.wait(), WAIT_S)
        await engine.publish(3)
        await engine.publish(4)
        assert posted.hashes() == [0]
        engine.answers.set()
        await posted.stored(0, 1, 2, 3, 4)


@pytest.mark.parametrize("replay", [True, False])
async def test_what_cannot_be_replayed_clears_the_endpoint_and_the_feed_goes_on(replay: bool) -> None:
    engine = Publisher(buffered=2)
    async with followed(engine, replay=replay) as (feed, posted):
        await engine.subscribed()
        await engine.publish(0)
        await posted.stored(0)
        for number in range(1, 5):
            await engine.publish(number, lost=True)
        await engine.publish(5)
        await posted.stored(0, *([4, 5] if replay else [5]))
        first = 4 if replay else 5
        assert posted.events[1] == BlocksCleared(EndpointId("p0"), 0, first, "gap")
        assert len(posted.cleared()) == 1
        assert feed.counts["lost_batches"] == first - 1


@pytest.mark.parametrize("replay", [True, False])
async def test_a_number_that_goes_back_is_a_new_incarnation(replay: bool) -> None:
    engine = Publisher()
    async with followed(engine, replay=replay) as (feed, posted):
        await engine.subscribed()
        for number in range(3):
            await engine.publish(number)
        await posted.stored(0, 1, 2)
        engine.restart()
        await engine.publish(10, lost=True)
        await engine.publish(11)
        await posted.stored(0, 1, 2, *([10, 11] if replay else [11]))
        assert posted.cleared() == [BlocksCleared(EndpointId("p0"), 1, 0, "restart")]
        assert {e.incarnation for e in posted.events[-2:]} == {1}
        assert feed.incarnation == 1


async def test_a_restart_of_an_idle_engine_is_noticed_at_the_reconnection() -> None:
    engine = Publisher()
    async with followed(engine) as (_, posted):
        await engine.publish(0, lost=True)
        await engine.publish(1, lost=True)
        await engine.subscribed()
        await engine.publish(2)
        await posted.stored(0, 1, 2)
        await engine.close()
        again = await rebound(engine)
        try:
            await posted.until(lambda p: bool(p.cleared()))
            assert posted.cleared() == [BlocksCleared(EndpointId("p0"), 1, 0, "restart")]
            assert again.asked[0] == 0
        finally:
            await again.close()


async def rebound(old: Publisher) -> Publisher:
    """ZMQ gives a port back from its own thread, a moment after close."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return Publisher(events_url=old.events_url, replay_url=old.replay_url)
            except zmq.ZMQError:
                await asyncio.sleep(0.01)


async def test_garbage_is_counted_and_said_once_and_never_ends_the_feed(caplog: pytest.LogCaptureFixture) -> None:
    engine = Publisher()
    async with followed(engine, replay=False) as (feed, posted):
        await engine.subscribed()
        await engine.publish(0)
        await posted.stored(0)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await engine.send([b"one frame"])
                await engine.send([b"kv-events", b"no number", b""])
                await engine.send([b"kv-events", engine.next.to_bytes(8, "big"), b"\xc1 no msgpack"])
                engine.next += 1
            await engine.publish(1)
            await posted.stored(0, 1)
        assert [c.reason for c in posted.cleared()] == ["gap"]
        assert {k: v for k, v in feed.counts.items() if k.startswith("undecodable")} == {
            "undecodable_frames": 3,
            "undecodable_sequence": 3,
            "undecodable_msgpack": 3,
        }
        assert len(caplog.records) == 3
        assert all("p0" in record.getMessage() for record in caplog.records)


async def test_a_replay_address_where_nobody_answers_costs_a_time_out_not_the_feed() -> None:
    engine = Publisher()
    engine.answers.clear()
    async with followed(engine, replay_timeout_s=0.05) as (feed, posted):
        await engine.subscribed()
        await engine.publish(0)
        await posted.stored(0)
        await engine.publish(1, lost=True)
        await engine.publish(2)
        await posted.stored(0, 2)
        assert [c.reason for c in posted.cleared()] == ["gap"]
        assert feed.counts["replay_timeouts"] >= 1


async def test_starting_without_an_engine_and_stopping_twice_is_clean() -> None:
    engine = Publisher()
    await engine.close()
    feed = KvEventFeed(endpoint(engine), Posted().post, Middle())
    await feed.start()
    await feed.stop()
    await feed.stop()
    unstarted = KvEventFeed(endpoint(engine), Posted().post, Middle())
    await unstarted.stop()


async def test_an_endpoint_without_events_has_no_feed() -> None:
    engine = Publisher()
    await engine.close()
    silent = replace(endpoint(engine), events_url="")
    with pytest.raises(ValueError, match="p0 has no events_url"):
        KvEventFeed(silent, Posted().post, Middle())


async def test_a_fault_in_the_core_ends_the_feed_loudly(caplog: pytest.LogCaptureFixture) -> None:
    engine = Publisher()
    failed = asyncio.Event()

    def post(event: Event) -> None:
        failed.set()
        raise RuntimeError("the core is broken")

    feed = KvEventFeed(endpoint(engine, replay=False), post, Middle())
    await feed.start()
    await engine.subscribed()
    await engine.publish(0)
    await asyncio.wait_for(failed.wait(), WAIT_S)
    async with asyncio.timeout(WAIT_S):
        while "the KV event feed of p0 ended" not in caplog.text:
            await asyncio.sleep(0.001)
    await feed.stop()
    await engine.close()


def test_it_works_under_uvloop() -> None:
    async def scenario() -> list[object]:
        engine = Publisher()
        await engine.publish(0, lost=True)
        async with followed(engine) as (_, posted):
            await posted.stored(0)
            await engine.publish(1)
            await posted.stored(0, 1)
            return posted.hashes()

    assert uvloop.run(scenario()) == [0, 1]
