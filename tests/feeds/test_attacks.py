"""The KV event feed against engines and networks that do everything wrong, over real ZMQ sockets.

The rule: what is believed is never more than the truth once the feed has seen evidence, and it is the whole truth again
as soon as the engine answers a replay.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from tests.feeds.misbehaving import TOPIC, Belief, MisbehavingEngine
from tests.feeds.test_kv_events import Middle, Publisher, endpoint
from vicinal.gateway.feeds.kv_events import KvEventFeed
from vicinal.gateway.feeds.sockets import SocketLimits

QUIET_S = 0.05
WAIT_S = 20.0


class World:
    def __init__(self, engine: MisbehavingEngine, belief: Belief, feed: KvEventFeed) -> None:
        self.engine, self.belief, self.feed = engine, belief, feed

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not done():
                await asyncio.sleep(0.002)

    async def exact(self) -> None:
        await self.until(lambda: self.belief.held == self.engine.held)

    async def warm(self) -> None:
        """The subscription stands, and something is believed."""
        seen = self.feed.counts["batches"]
        async with asyncio.timeout(WAIT_S):
            while self.feed.counts["batches"] < seen + 3:
                await self.engine.publish(sure=True)
                await asyncio.sleep(0.01)
        await self.until(lambda: self.belief.held <= self.engine.held)

    async def busy(self, batches: int) -> None:
        for number in range(batches):
            await self.engine.publish()
            if not number % 5:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def followed(
    engine: MisbehavingEngine, *, replay: bool = True, timeout_s: float = 0.1, limits: SocketLimits | None = None
) -> AsyncIterator[World]:
    await engine.start()
    belief = Belief()
    described = replace(endpoint_of(engine), replay_url=engine.replay_url if replay else "")
    feed = KvEventFeed(described, belief.post, Middle(), replay_timeout_s=timeout_s, quiet_s=QUIET_S, limits=limits)
    await feed.start()
    try:
        yield World(engine, belief, feed)
    finally:
        await feed.stop()
        await engine.stop()


def endpoint_of(engine: MisbehavingEngine):  # type: ignore[no-untyped-def]
    class Addresses:
        events_url, replay_url = engine.events_url, engine.replay_url

    return endpoint(Addresses())  # type: ignore[arg-type]


@pytest.mark.mission("B16")
@pytest.mark.parametrize("seed", range(3))
async def test_a_fifth_of_the_messages_lost_some_doubled_some_late(seed: int) -> None:
    """The last ones too: nothing follows them, so only the question after a silence can tell."""
    engine = MisbehavingEngine(seed, drop=0.2, double=0.1, delay=0.1)
    async with followed(engine) as world:
        await world.warm()
        await world.busy(300)
        await world.exact()
        assert engine.sent < engine.next * 1.1 - 30
        assert world.feed.counts["gaps"] > 3
        assert world.feed.counts["lost_batches"] == 0
        assert not world.belief.cleared


async def test_an_engine_that_falls_silent_is_asked_more_and_more_seldom() -> None:
    async with followed(MisbehavingEngine()) as world:
        await world.warm()
        asked = world.engine.questions
        await asyncio.sleep(20 * QUIET_S)
        assert world.engine.questions - asked <= 6
        await world.until(lambda: world.engine.questions - asked >= 2)


@pytest.mark.parametrize("manner", ["never", "partly", "garbage", "late", "holes"])
async def test_a_replay_that_fails_costs_knowledge_and_never_truth(manner: str) -> None:
    """Belief is never more than the truth behind a message that came through, and comes back with good replays."""
    engine = MisbehavingEngine(1, drop=0.2)
    engine.wait_s = 0.3
    async with followed(engine) as world:
        await world.warm()
        engine.manner = manner
        for _ in range(5):
            await world.busy(20)
            await engine.publish(sure=True)
            await world.until(lambda: world.belief.held <= engine.held)
        engine.manner = "well"
        await engine.publish(sure=True)
        if manner == "holes":  # such a replay looks complete, so nothing says that a better one could be had
            await engine.reborn()
            await world.warm()
        await world.exact()
        assert not {k for k in world.feed.counts if k.startswith("undecodable")} or manner == "garbage"


async def test_live_messages_do_not_wait_again_and_again_for_an_address_that_is_dead() -> None:
    engine = MisbehavingEngine(2, drop=0.3)
    async with followed(engine, timeout_s=0.2) as world:
        await world.warm()
        engine.manner = "never"
        await world.busy(200)
        await engine.publish(sure=True)
        await world.until(lambda: world.feed.counts["gaps"] > 20 and world.belief.held <= engine.held)
        assert world.feed.counts["replay_timeouts"] < world.feed.counts["gaps"] / 2


@pytest.mark.mission("B12", "B16")
@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize("before", [0, 1, 3, 40])
async def test_killed_and_restarted_with_a_lower_an_equal_or_a_higher_number(before: int, replay: bool) -> None:
    """Three batches were heard of the old life; `before` of the new one were published while nobody listened."""
    async with followed(MisbehavingEngine(3), replay=replay) as world:
        await world.warm()
        old = set(world.belief.held)
        assert old
        heard = world.engine.next
        await world.engine.reborn({3: heard}.get(before, before))
        await world.until(lambda: world.feed.counts["connections"] == 2)
        if replay:
            await world.exact()
        else:
            await world.until(lambda: not world.belief.held)
        await world.engine.publish(sure=True)
        await world.until(lambda: world.belief.held <= world.engine.held)


@pytest.mark.parametrize("ahead", [-1, 0, 1, 5])
async def test_a_restart_that_a_forwarder_hides(ahead: int) -> None:
    """No connection is lost. The first message that comes through of the new life may have just the awaited number."""
    async with followed(MisbehavingEngine(4)) as world:
        await world.warm()
        heard = world.engine.next
        world.engine.forget()
        while world.engine.next < heard + ahead:
            world.engine.change()
        await world.engine.publish(sure=True)
        await world.exact()
        assert world.feed.incarnation == 1


async def test_a_slow_reader_loses_messages_and_finds_them_again() -> None:
    """Queues of two messages on both sides: most of a burst is dropped, silently, by ZMQ."""
    engine = MisbehavingEngine(5)
    async with followed(engine, limits=SocketLimits(waiting_messages=2)) as world:
        await world.warm()
        async with world.feed._turn:
            for _ in range(2000):
                await engine.publish(sure=True)
        await world.exact()


async def test_a_message_beyond_the_bound_ends_the_connection_and_not_the_feed() -> None:
    engine = MisbehavingEngine(6)
    async with followed(engine, limits=SocketLimits(message_bytes=20_000)) as world:
        await world.warm()
        engine.buffer.append((engine.next, b"x" * 50_000))
        await engine.send([TOPIC, engine.next.to_bytes(8, "big"), b"x" * 50_000])
        engine.next += 1
        await world.until(lambda: world.feed.counts["connections"] == 2)
        engine.buffer.clear()  # a message that cannot be replayed either leaves the buffer in the end
        await world.warm()
        assert world.belief.held


async def test_huge_batches_are_taken_in() -> None:
    engine = MisbehavingEngine(7)
    async with followed(engine) as world:
        await world.warm()
        names = range(1000, 101_000)
        stored = {
            "type": "BlockStored",
            "block_hashes": list(names),
            "parent_block_hash": None,
            "token_ids": list(names),
            "block_size": 1,
        }
        payload = msgspec.msgpack.encode([0.0, [stored], 0])
        engine.buffer.append((engine.next, payload))
        await engine.send([TOPIC, engine.next.to_bytes(8, "big"), payload])
        engine.next += 1
        engine.held |= set(names)
        await world.exact()


async def test_events_of_a_kind_that_is_not_known_yet_are_counted_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = MisbehavingEngine(8)
    async with followed(engine) as world:
        await world.warm()
        for _ in range(3):
            payload = msgspec.msgpack.encode([0.0, [{"type": "BlockWarmed", "block_hashes": [1]}, ["Moved", 1]], 0])
            engine.buffer.append((engine.next, payload))
            await engine.send([TOPIC, engine.next.to_bytes(8, "big"), payload])
            engine.next += 1
        await world.warm()
        assert world.feed.counts["ignored_unknown_kind"] == 6
        assert len([r for r in caplog.records if "unknown_kind" in r.getMessage()]) == 1


async def test_a_publisher_without_replay_that_begins_late_is_believed_from_there_on() -> None:
    engine = Publisher(buffered=0)
    for number in range(5):
        await engine.publish(number, lost=True)
    belief = Belief()
    feed = KvEventFeed(endpoint(engine, replay=False), belief.post, Middle())
    await feed.start()
    try:
        await engine.subscribed()
        await engine.publish(5)
        async with asyncio.timeout(WAIT_S):
            while belief.held != {5}:
                await asyncio.sleep(0.002)
        assert feed.counts["lost_batches"] == 5
    finally:
        await feed.stop()
        await engine.close()
