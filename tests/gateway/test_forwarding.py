"""What of a client's headers engines get, with and without keys."""

import pytest

from vicinal.domain.events import PrefillDone
from vicinal.gateway.access import TrustedHeaders
from vicinal.gateway.caller import Caller
from vicinal.gateway.forwarding import Forwarding
from vicinal.gateway.keys import HashedKey, KeyRing, hash_of, new_key

BODY = {"model": "m", "prompt": [1, 2, 3, 4, 5], "max_tokens": 4}
WHOLE = {"choices": [{"text": "Hi"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


@pytest.mark.mission("B10")
@pytest.mark.parametrize("engine_key", ["", "e-secret"])
async def test_a_key_of_the_gateways_reaches_no_engine(world, kit, engine_key) -> None:
    async def answer(seen, reply) -> None:
        await reply.json(kit.prefill_answer() if b"do_remote_decode" in seen.raw else WHOLE)

    name, key = new_key()
    ring = KeyRing([HashedKey(name, bytes.fromhex(hash_of(key)), Caller("acme"))])
    engines = [await world.engine("p", answer), await world.engine("d", answer)]
    kit.hands_off(world.scheduler)
    await world.start(keys=ring, forwarding=Forwarding(clients_own=False, engine_key=engine_key))
    assert (await world.ask(BODY)).status == 401
    response = await world.ask(BODY, headers=f"Authorization: Bearer {key}\r\ntraceparent: t\r\n")
    assert response.status == 200
    await world.scheduler.saw(PrefillDone)
    assert world.scheduler.events[0].request.tenant == "acme"
    for engine in engines:
        (seen,) = engine.seen
        assert seen.headers.get("authorization") == (f"Bearer {engine_key}" if engine_key else None)
        assert seen.headers["traceparent"] == "t"
        assert key not in str(seen.headers)


@pytest.mark.mission("B10")
@pytest.mark.parametrize(("peers", "tenant"), [(("127.0.0.1",), "a1"), (("10.0.0.0/8",), "default"), ((), "default")])
async def test_a_tenant_is_who_a_named_peer_says(world, kit, peers, tenant) -> None:
    async def answer(seen, reply) -> None:
        await reply.json(WHOLE)

    await world.engine("d", answer)
    kit.goes_whole(world.scheduler)
    await world.start(trusted=TrustedHeaders("x-tenant", peers=peers))
    assert (await world.ask(BODY, headers="X-Tenant: a1\r\n")).status == 200
    assert world.scheduler.events[0].request.tenant == tenant
    assert world.gateway.counters.claims_ignored == (tenant == "default")


@pytest.mark.mission("B10")
@pytest.mark.parametrize("head", ["Content-Length: 9000000\r\n", "Transfer-Encoding: chunked\r\n"])
@pytest.mark.parametrize("expects", ["", "Expect: 100-continue\r\n"])
async def test_long_bodies_of_strangers_are_not_read(world, head, expects) -> None:
    """They are refused after their heads; a body that never comes is not waited for."""
    name, key = new_key()
    await world.start(keys=KeyRing([HashedKey(name, bytes.fromhex(hash_of(key)))]))
    for sent in ("", "Authorization: Bearer vk-x\r\n"):
        client = await world.client()
        client.send(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{head}{expects}{sent}\r\n".encode())
        response = await client.response()
        assert (response.status, response.error["code"]) == (401, "invalid_api_key")
        assert response.headers["connection"] == "close"
        client.send(b"x" * 1000)
        assert await client.closed() == b""
    assert world.gateway.counters.keys_refused == 2
    assert not world.scheduler.events


async def test_a_long_body_of_somebody_known_is_read(world, kit) -> None:
    async def answer(seen, reply) -> None:
        await reply.json(WHOLE)

    name, key = new_key()
    await world.engine("d", answer)
    kit.goes_whole(world.scheduler)
    await world.start(keys=KeyRing([HashedKey(name, bytes.fromhex(hash_of(key)))]))
    body = BODY | {"user": "x" * 100_000}
    assert (await world.ask(body, headers=f"Authorization: Bearer {key}\r\n")).status == 200
    assert (await world.ask(body)).status == 401
