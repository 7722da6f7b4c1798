"""What a client reads whose tenant has had enough: a real scheduler with quotas behind real sockets."""

import asyncio
from typing import Any

import pytest

from tests.builders import MODEL, PROFILE, endpoint, scheduler
from vicinal.domain.endpoint import Role
from vicinal.flow.quotas.rules import Rules
from vicinal.flow.tenants import EVERYBODY, Tenant
from vicinal.gateway.access import TrustedHeaders
from vicinal.gateway.prompt_reader import ServedModel

BODY = {"model": MODEL, "prompt": list(range(100)), "max_tokens": 9}
SERVED = ServedModel(MODEL, 16, 131_072)


async def hangs(seen: Any, reply: Any) -> None:
    await asyncio.Event().wait()


async def limited(world: Any, **figures: float) -> None:
    engine = await world.engine("d", hangs)
    one = endpoint("d", Role.BOTH, url=f"http://127.0.0.1:{engine.port}", profile=PROFILE, hands_off=False)
    world.endpoints = lambda: (one,)
    world.scheduler = scheduler([one], tenants=[Tenant(EVERYBODY, rules=Rules(**figures))])
    await world.start(models=[SERVED], trusted=TrustedHeaders("x-tenant", peers=("127.0.0.1",)))


async def holds(world: Any, tenant: str) -> Any:
    """A request of `tenant` that does not end, and its client."""
    client = await world.client()
    client.post(BODY, headers=f"X-Tenant: {tenant}\r\n")
    await asyncio.wait_for(world.engines["d"].arrived.get(), 10)
    return client


@pytest.mark.mission("B6")
@pytest.mark.parametrize(
    ("figures", "quota", "words", "least_s"),
    [
        ({"requests_per_s": 0.01, "burst_s": 50.0}, "requests_per_s", "of 0.5 within 50 s", 40),
        ({"tokens_per_s": 1.0, "burst_s": 50.0}, "tokens_per_s", "of 50 within 50 s", 40),
        ({"concurrency_max": 1}, "concurrency_max", "1 of 1", 1),
    ],
)
async def test_quota_exceeded_is_429_with_which_quota_and_when_to_return(
    world, kit, figures, quota, words, least_s
) -> None:
    await limited(world, **figures)
    await holds(world, "a")
    response = await world.ask(BODY, headers="X-Tenant: a\r\n")
    assert (response.status, response.error["code"]) == (429, "quota_exceeded")
    assert response.error["type"] == "rate_limit_error"
    assert f"quota {quota} of tenant a is used up" in response.error["message"]
    assert words in response.error["message"]
    assert response.headers["x-vicinal-reason"] == f"quota_exceeded:{quota}"
    assert least_s <= int(response.headers["retry-after"]) <= least_s + 70
    await holds(world, "b")


@pytest.mark.mission("B6")
async def test_a_client_that_leaves_makes_room_for_the_next_of_its_tenant(world, kit) -> None:
    await limited(world, concurrency_max=1)
    first = await holds(world, "a")
    assert (await world.ask(BODY, headers="X-Tenant: a\r\n")).status == 429
    first.drop()
    while world.scheduler.requests:
        await asyncio.sleep(0.01)
    await holds(world, "a")


@pytest.mark.mission("B6")
async def test_time_of_the_gateway_is_charged_and_then_not_spent(world, kit) -> None:
    """The first takes more than there ever is; the second is refused by the core, the third before it is read."""
    await limited(world, gateway_cpu_s_per_s=1e-9, burst_s=1.0)
    await holds(world, "a")
    told = [await world.ask(body, headers="X-Tenant: a\r\n") for body in (BODY, b"not even JSON")]
    assert [response.headers["x-vicinal-reason"] for response in told] == ["quota_exceeded:gateway_cpu_s_per_s"] * 2
    assert [response.status for response in told] == [429, 429]
    assert world.gateway.counters.refused_unread == 1
    await holds(world, "b")
