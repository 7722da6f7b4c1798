"""What is over is let go at once: what waits for a full garbage collection looks like a leak, and a full one may come
after hours."""

import asyncio
import gc
from typing import Any

from vicinal.domain.events import ClientGone
from vicinal.gateway.answer_reader import AnswerReader
from vicinal.gateway.attempt import AttemptLegs
from vicinal.gateway.exchange import Exchange
from vicinal.gateway.legs import HeldLeg, StreamLeg
from vicinal.gateway.upstream import Call

KINDS = (Exchange, AttemptLegs, HeldLeg, StreamLeg, Call, AnswerReader)


def left() -> dict[str, int]:
    kept = [type(one).__name__ for one in gc.get_objects() if isinstance(one, KINDS)]
    return {name: kept.count(name) for name in set(kept)}


async def test_requests_that_are_over_leave_nothing_for_the_garbage_collector(world: Any, kit: Any) -> None:
    async def engine(seen: Any, reply: Any) -> None:
        asked = seen.body
        if asked.get("user") == "dies":
            reply.die()
        elif not asked.get("stream"):
            await reply.json({"id": "1", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
            reply.writer.close()
        else:
            await reply.open_stream()
            await reply.event(kit.text_event("a"))
            if asked.get("user") == "leaves":
                await seen.gone.wait()
            await reply.done()
            reply.writer.close()

    await world.engine("d", engine)
    await world.start()
    kit.goes_whole(world.scheduler)
    gc.collect()
    gc.disable()
    try:
        for stream in (False, True):
            for user in ("answered", "dies"):
                await world.ask({"model": "m", "prompt": [1, 2], "stream": stream, "user": user})
        client = await world.client()
        client.post({"model": "m", "prompt": [1, 2], "stream": True, "user": "leaves"})
        await client.head()
        client.drop()
        await world.scheduler.saw(ClientGone)
        async with asyncio.timeout(10.0):
            while left():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"left for the garbage collector: {left()}") from None
    finally:
        gc.enable()
