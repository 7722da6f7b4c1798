"""What a client says of itself moves it nowhere: not to another tenant, not to another band. On real sockets."""

from typing import Any

import pytest

from vicinal.domain.band import Band
from vicinal.domain.events import RequestArrived
from vicinal.domain.request import BATCH, INTERACTIVE, Request, ServiceClass
from vicinal.gateway.access import TrustedHeaders
from vicinal.gateway.caller import Caller
from vicinal.gateway.keys import HashedKey, KeyRing, hash_of, new_key
from vicinal.gateway.trust import TrustGroups

BODY = {"model": "m", "prompt": [1, 2, 3, 4, 5], "max_tokens": 9}
SYSTEM = ServiceClass("operators", band=Band.SYSTEM)
NAME, KEY = new_key()
HEADERS = {
    "X-Vicinal-Class": "operators",
    "X-Vicinal-Tenant": "other",
    "X-Vicinal-Band": "system",
    "X-Vicinal-Priority": "-1000",
    "X-Forwarded-For": "127.0.0.1",
    "Priority": "u=0",
}
FIELDS: dict[str, Any] = {"service_tier": "priority", "band": "system", "tenant": "other", "user": "other"}


def trusted(*peers: str) -> TrustedHeaders:
    return TrustedHeaders("x-vicinal-tenant", "x-vicinal-class", (INTERACTIVE, BATCH, SYSTEM), peers)


def ring() -> KeyRing:
    return KeyRing([HashedKey(NAME, bytes.fromhex(hash_of(KEY)), Caller("acme", service=BATCH))])


async def answers(seen: Any, reply: Any) -> None:
    await reply.json({"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}})


async def sent(world: Any, body: dict[str, Any], headers: dict[str, str]) -> Request:
    """As the core got it."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    response = await world.ask(body, headers=lines)
    assert response.status == 200, response.body
    request: Request = world.scheduler.of(RequestArrived)[-1].request
    return request


@pytest.mark.mission("B5")
@pytest.mark.mission("B6")
async def test_a_key_of_batch_stays_in_its_band_whatever_it_claims(world, kit) -> None:
    engine = await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(keys=ring(), trusted=trusted())
    key = {"Authorization": f"Bearer {KEY}"}
    plain = await sent(world, BODY, key)
    for name, value in HEADERS.items():
        claimed = await sent(world, BODY, key | {name: value})
        assert (claimed.tenant, claimed.service, claimed.band, claimed.priority) == ("acme", BATCH, Band.BATCH, 0), name
    for name, value in FIELDS.items():
        claimed = await sent(world, BODY | {name: value}, key)
        assert (claimed.tenant, claimed.service, claimed.band, claimed.priority) == ("acme", BATCH, Band.BATCH, 0), name
    everything = await sent(world, BODY | FIELDS | {"priority": -(2**31)}, key | HEADERS)
    assert (everything.tenant, everything.band) == (plain.tenant, plain.band) == ("acme", Band.BATCH)
    assert everything.priority == -(2**31), "first among the requests of its own tenant"
    assert world.gateway.counters.claims_ignored == 3
    assert not any("vicinal" in name for name in engine.seen[-1].headers)


@pytest.mark.mission("B6")
@pytest.mark.parametrize("peers", [(), ("10.0.0.0/8",)], ids=["nobody is trusted", "somebody else is trusted"])
async def test_without_keys_all_are_the_default_tenant_whatever_they_claim(world, kit, peers) -> None:
    await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(trusted=trusted(*peers))
    claimed = await sent(world, BODY | FIELDS, HEADERS)
    assert (claimed.tenant, claimed.band) == ("default", Band.INTERACTIVE)
    assert world.gateway.counters.claims_ignored == 1


@pytest.mark.mission("B5")
async def test_a_front_that_is_trusted_says_tenant_and_class(world, kit) -> None:
    await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(keys=ring(), trusted=trusted("127.0.0.1"))
    told = await sent(world, BODY, {"Authorization": f"Bearer {KEY}"} | HEADERS)
    assert (told.tenant, told.service, told.band) == ("other", SYSTEM, Band.SYSTEM)


@pytest.mark.mission("B6")
@pytest.mark.parametrize("value", [-(2**31), -1, 0, 7, 2**31 - 1])
@pytest.mark.parametrize("salted", [False, True])
async def test_a_priority_is_for_the_core_and_never_for_an_engine(world, kit, value, salted) -> None:
    engine = await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(trust=TrustGroups(isolate=True) if salted else None)
    request = await sent(world, BODY | {"priority": value}, {})
    assert request.priority == value
    seen = engine.seen[-1].body
    assert seen.pop("cache_salt", None) is None or salted
    assert seen == BODY


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**70, 1.5, "high", True, [1]])
async def test_a_priority_out_of_its_bounds_is_refused_by_name(world, kit, value) -> None:
    await world.start()
    response = await world.ask(BODY | {"priority": value})
    assert (response.status, response.error["code"], response.error["param"]) == (400, "invalid_request", "priority")
    assert world.scheduler.events == []


async def test_a_long_body_has_its_priority_taken_out_too(world, kit) -> None:
    engine = await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start()
    long = BODY | {"prompt": [[1, 2, 3]] * 10, "user": "x" * 100_000}
    request = await sent(world, long | {"priority": 3}, {})
    assert request.priority == 3
    assert engine.seen[-1].body == long
