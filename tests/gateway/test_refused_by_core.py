"""What clients read when the core has no room for them: a real scheduler behind real sockets."""

import asyncio
import re
from typing import Any

import pytest

from tests.builders import MODEL, PROFILE, endpoint, scheduler
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.scheduler.settings import SchedulerSettings

BODY = {"model": MODEL, "prompt": list(range(100)), "max_tokens": 9}
SERVED = ServedModel(MODEL, 16, 131_072)


async def hangs(seen: Any, reply: Any) -> None:
    await asyncio.Event().wait()


async def crowded(world: Any, **settings: Any) -> Any:
    """A fleet of one engine for one sequence, which a request has that does not end; the client that waits for it."""
    engine = await world.engine("d", hangs)
    one: Endpoint = endpoint(
        "d", Role.BOTH, url=f"http://127.0.0.1:{engine.port}", profile=PROFILE, hands_off=False, sequences_max=1
    )
    world.endpoints = lambda: (one,)
    world.scheduler = scheduler([one], settings=SchedulerSettings(**settings))
    await world.start(models=[SERVED])
    client = await world.client()
    client.post(BODY)
    await asyncio.wait_for(engine.arrived.get(), 10)
    return client


@pytest.mark.mission("B7")
async def test_waited_too_long_is_503_with_the_time_waited_and_when_to_come_back(world, kit) -> None:
    await crowded(world, hold_s_max=0.3)
    response = await world.ask(BODY)
    assert (response.status, response.error["code"]) == (503, "waited_too_long")
    assert response.headers["x-vicinal-reason"] == "waited_too_long"
    assert re.search(r"within 0\.3 s", response.error["message"])
    assert 1 <= int(response.headers["retry-after"]) <= 5


@pytest.mark.mission("B4")
@pytest.mark.mission("B7")
async def test_a_full_queue_is_429_and_those_in_it_stay(world, kit) -> None:
    first = await crowded(world, hold_s_max=60.0, held_max=1)
    second = await world.client()
    second.post(BODY)
    while not len(world.scheduler.turns.flow):
        await asyncio.sleep(0.01)
    response = await world.ask(BODY)
    assert (response.status, response.error["code"]) == (429, "queue_full")
    assert response.headers["x-vicinal-reason"] == "queue_full"
    assert int(response.headers["retry-after"]) >= 1
    assert len(world.scheduler.turns.flow) == 1
    first.drop()
    seen = await asyncio.wait_for(world.engines["d"].arrived.get(), 10)
    assert seen.body == BODY, "who waited has its turn"


@pytest.mark.mission("B7")
async def test_no_capacity_is_503(world, kit) -> None:
    one = endpoint("d", Role.BOTH, url="http://127.0.0.1:9", hands_off=False)
    world.endpoints = lambda: (one,)
    world.scheduler = scheduler([one], reported=False)
    await world.start(models=[SERVED])
    response = await world.ask(BODY)
    assert (response.status, response.error["code"]) == (503, "no_endpoint")
    assert int(response.headers["retry-after"]) >= 1
    assert response.headers["x-request-id"]


@pytest.mark.mission("B7")
async def test_those_refused_together_are_told_different_times(world, kit) -> None:
    await crowded(world, hold_s_max=0.2, held_max=100)
    clients = [await world.client() for _ in range(40)]
    for client in clients:
        client.post(BODY)
    times = [int((await client.response()).headers["retry-after"]) for client in clients]
    assert len(set(times)) >= 3
