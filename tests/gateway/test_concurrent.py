"""Concurrent hand-offs through the gateway: two legs at once, one number, one fate. Real sockets on both sides."""

import asyncio
from typing import Any

import pytest

from vicinal.domain.endpoint import HandOff
from vicinal.domain.events import ClientGone, FirstToken, LegFailed, PrefillDone, RequestFinished

BODY = {"model": "m", "prompt": [1, 2, 3, 4, 5], "max_tokens": 9, "stream": False}
STREAMED = BODY | {"stream": True, "stream_options": {"include_usage": True}}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
WHOLE = {"id": "cmpl-1", "choices": [{"text": "Hi you"}], "usage": USAGE}
SGLANG: dict[str, Any] = {"dialect": "sglang", "hand_off": HandOff.BOOTSTRAP}
MOONCAKE: dict[str, Any] = {"hand_off": HandOff.MOONCAKE}


async def hangs(seen, reply):
    await asyncio.Event().wait()


def answers(body, status=200):
    async def script(seen, reply):
        await reply.json(body, status)

    return script


def after(event: asyncio.Event, script):
    async def waiting(seen, reply):
        await event.wait()
        await script(seen, reply)

    return waiting


def streams(*events):
    async def script(seen, reply):
        await reply.open_stream()
        for event in events:
            await reply.event(event)
        await reply.event({"choices": [], "usage": USAGE})
        await reply.done()

    return script


@pytest.mark.mission("B11")
async def test_both_legs_meet_in_one_room_and_the_client_reads_the_decode_leg(world, kit) -> None:
    p = await world.engine("p", answers(kit.prefill_answer(params=b"null")), **SGLANG)
    d = await world.engine("d", answers(WHOLE), **SGLANG)
    kit.leaves_together(world.scheduler)
    await world.start()
    rooms = set()
    for _ in range(3):
        response = await world.ask(BODY, headers="X-Request-Id: mine\r\n")
        assert (response.status, response.json) == (200, WHOLE)
        sent, joined = p.seen[-1].body, d.seen[-1].body
        room = {name: sent[name] for name in ("bootstrap_host", "bootstrap_port", "bootstrap_room")}
        assert room | BODY == joined
        assert sent == joined
        assert (room["bootstrap_host"], room["bootstrap_port"]) == ("127.0.0.1", 8998)
        assert 0 <= room["bootstrap_room"] < 2**63
        rooms.add(room["bootstrap_room"])
        assert p.seen[-1].headers["x-request-id"] == d.seen[-1].headers["x-request-id"] == "mine"
    assert len(rooms) == 3, "new for every attempt"
    assert world.gateway.counters.handoffs_missing == 0


async def test_the_legs_do_not_wait_for_each_other(world, kit) -> None:
    """The prefill leg answers last, as SGLang's does; the stream is long under way."""
    late = asyncio.Event()
    await world.engine("p", after(late, answers(kit.prefill_answer(params=b"null"))), **SGLANG)
    first, second = asyncio.Event(), asyncio.Event()

    async def two_words(seen, reply):
        await reply.open_stream()
        await reply.event(kit.text_event("Hi"))
        first.set()
        await second.wait()
        await reply.event(kit.text_event(" you"))
        await reply.event({"choices": [], "usage": USAGE})
        await reply.done()

    await world.engine("d", two_words, **SGLANG)
    kit.leaves_together(world.scheduler)
    await world.start()
    client = await world.client()
    client.post(STREAMED)
    await client.head()
    assert b"Hi" in await client.chunk()
    await world.scheduler.saw(FirstToken)
    late.set()
    assert (await world.scheduler.saw(PrefillDone)).cached_tokens == 4
    second.set()
    assert (await world.scheduler.saw(RequestFinished)).output_tokens == 2


async def test_a_prefill_leg_that_never_answers_is_closed_with_the_request(world, kit) -> None:
    p = await world.engine("p", hangs, **SGLANG)
    await world.engine("d", streams(kit.text_event("Hi")), **SGLANG)
    kit.leaves_together(world.scheduler)
    await world.start()
    assert (await world.ask(STREAMED)).status == 200
    await asyncio.wait_for(p.seen[0].gone.wait(), 10)
    assert world.scheduler.of(LegFailed) == []


@pytest.mark.mission("B11")
@pytest.mark.parametrize("broken", ["p", "d"])
@pytest.mark.parametrize("how", ["answers 500", "dies"])
async def test_one_leg_that_fails_closes_the_other_at_once(world, kit, broken, how) -> None:
    async def dies(seen, reply):
        reply.die()

    fails = dies if how == "dies" else answers({"error": {"message": "KVTransferError", "code": 500}}, 500)
    other = {"p": "d", "d": "p"}[broken]
    both_there = asyncio.Barrier(2)

    async def breaks(seen, reply):
        await both_there.wait()
        await fails(seen, reply)

    async def waits(seen, reply):
        await both_there.wait()
        await hangs(seen, reply)

    await world.engine(broken, breaks, **SGLANG)
    left = await world.engine(other, waits, **SGLANG)
    kit.leaves_together(world.scheduler)
    await world.start()
    response = await world.ask(STREAMED)
    assert response.status == 502
    await asyncio.wait_for(left.seen[0].gone.wait(), 10)
    (failed,) = world.scheduler.of(LegFailed)
    assert (failed.leg, failed.answered) == ({"p": "prefill", "d": "decode"}[broken], how == "answers 500")


async def test_a_retry_meets_in_another_room(world, kit) -> None:
    tries = 0

    async def second_time(seen, reply):
        nonlocal tries
        tries += 1
        await (answers({"error": {"message": "no"}}, 500) if tries == 1 else answers(WHOLE))(seen, reply)

    p = await world.engine("p", hangs, **SGLANG)
    d = await world.engine("d", second_time, **SGLANG)
    kit.leaves_together(world.scheduler, attempts=2)
    await world.start()
    assert (await world.ask(BODY, headers="X-Request-Id: mine\r\n")).json == WHOLE
    first, second = d.seen
    assert first.body["bootstrap_room"] != second.body["bootstrap_room"]
    assert second.headers["x-request-id"] == "mine.2"
    rooms = {seen.body["bootstrap_room"] for seen in p.seen}
    assert second.body["bootstrap_room"] in rooms


async def test_a_client_that_leaves_closes_both(world, kit) -> None:
    p = await world.engine("p", hangs, **SGLANG)
    d = await world.engine("d", hangs, **SGLANG)
    kit.leaves_together(world.scheduler)
    await world.start()
    client = await world.client()
    client.post(STREAMED)
    await asyncio.wait_for(asyncio.gather(p.arrived.get(), d.arrived.get()), 10)
    client.drop()
    await world.scheduler.saw(ClientGone)
    await asyncio.wait_for(asyncio.gather(p.seen[0].gone.wait(), d.seen[0].gone.wait()), 10)


async def test_a_clients_fault_is_told_once(world, kit) -> None:
    error = {"object": "error", "message": "bad top_p", "type": "BadRequestError", "param": None, "code": 400}
    await world.engine("p", answers(error, 400), **SGLANG)
    d = await world.engine("d", hangs, **SGLANG)
    kit.leaves_together(world.scheduler)
    await world.start()
    response = await world.ask(BODY)
    assert (response.status, response.json) == (400, error)
    assert [event.client_fault for event in world.scheduler.of(LegFailed)] == [True]
    if d.seen:
        await asyncio.wait_for(d.seen[0].gone.wait(), 10)


async def test_a_broken_prefill_leg_does_not_break_a_stream_that_runs(world, kit) -> None:
    """The core is told; this one does not care, as the real one does not."""
    begun, breaks, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def dies(seen, reply):
        await breaks.wait()
        reply.die()

    async def long_stream(seen, reply):
        await reply.open_stream()
        await reply.event(kit.text_event("Hi"))
        begun.set()
        await go_on.wait()
        await reply.event({"choices": [], "usage": USAGE})
        await reply.done()

    await world.engine("p", dies, **SGLANG)
    await world.engine("d", long_stream, **SGLANG)
    kit.leaves_together(world.scheduler)
    world.scheduler.on(LegFailed, lambda e: [])
    await world.start()
    client = await world.client()
    client.post(STREAMED)
    await begun.wait()
    await world.scheduler.saw(FirstToken)
    breaks.set()
    failed = await world.scheduler.saw(LegFailed)
    assert (failed.leg, failed.started) == ("prefill", False)
    go_on.set()
    assert (await client.response()).body.endswith(b"data: [DONE]\n\n")


def bootstrap_server(names: list[str]):
    """A prefill engine whose bootstrap server is at its own address: the last name counts."""

    async def script(seen, reply):
        if seen.path == "/query":
            await reply.json({"0": {"engine_id": names[-1], "worker_addr": {}}})
        else:
            answer = {"choices": [{"finish_reason": "length", "text": "Hi"}], "usage": USAGE}
            await reply.json(answer)

    return script


async def mooncake(world, kit, p_script, d_script) -> Any:
    p = await world.engine("p", p_script)
    world.described["p"] = MOONCAKE | {"bootstrap_port": p.port}
    d = await world.engine("d", d_script, **MOONCAKE)
    return p, d


@pytest.mark.mission("B11")
async def test_mooncake_legs_share_a_transfer_and_name_the_prefill_engine(world, kit) -> None:
    p, d = await mooncake(world, kit, bootstrap_server(["engine-1"]), answers(WHOLE))
    kit.leaves_together(world.scheduler)
    await world.start()
    for _ in range(2):
        assert (await world.ask(BODY)).json == WHOLE
    asked = [seen for seen in p.seen if seen.path == "/query"]
    legs = [seen.body for seen in p.seen if seen.path != "/query"]
    assert len(asked) == 1, "the name is kept"
    for sent, joined in zip(legs, (seen.body for seen in d.seen), strict=True):
        params = joined["kv_transfer_params"]
        assert params["remote_engine_id"] == "engine-1"
        assert params["remote_bootstrap_addr"] == f"http://127.0.0.1:{p.port}"
        assert params["do_remote_prefill"] is True
        assert sent["kv_transfer_params"]["transfer_id"] == params["transfer_id"]
        assert (sent["max_tokens"], joined["max_tokens"]) == (1, 9)
    assert len({body["kv_transfer_params"]["transfer_id"] for body in legs}) == 2


async def test_a_prefill_engine_that_began_anew_is_asked_for_its_name_again(world, kit) -> None:
    names = ["engine-1"]

    async def knows_one_name(seen, reply):
        stale = seen.body["kv_transfer_params"]["remote_engine_id"] != names[-1]
        await (answers({"error": {"message": "unknown engine"}}, 500) if stale else answers(WHOLE))(seen, reply)

    _, d = await mooncake(world, kit, bootstrap_server(names), knows_one_name)
    kit.leaves_together(world.scheduler, attempts=2)
    await world.start()
    assert (await world.ask(BODY)).json == WHOLE
    names.append("engine-2")
    assert (await world.ask(BODY)).json == WHOLE
    said = [seen.body["kv_transfer_params"]["remote_engine_id"] for seen in d.seen]
    assert said == ["engine-1", "engine-1", "engine-2"], "a stale name costs one attempt"


async def test_names_of_engines_that_left_are_not_kept(world, kit) -> None:
    p, _ = await mooncake(world, kit, bootstrap_server(["engine-1"]), answers(WHOLE))
    kit.leaves_together(world.scheduler)
    await world.start()
    await world.ask(BODY)
    for fleet, asked in ((world.endpoints(), 1), (world.endpoints()[1:], 1), (world.endpoints(), 2)):
        world.gateway.replace_endpoints(fleet)
        if len(fleet) == 2:
            await world.ask(BODY)
        assert len([seen for seen in p.seen if seen.path == "/query"]) == asked


@pytest.mark.parametrize("query", [answers({}), answers({"error": 1}, 500), answers(b"x" * (2 << 20))])
async def test_without_a_name_the_prefill_leg_fails_and_nothing_is_sent(world, kit, query) -> None:
    _, d = await mooncake(world, kit, query, hangs)
    kit.leaves_together(world.scheduler)
    await world.start()
    assert (await world.ask(BODY)).status == 502
    (failed,) = world.scheduler.of(LegFailed)
    assert failed.leg == "prefill"
    assert d.seen == []


async def test_a_mooncake_prefill_that_ends_the_text_is_the_answer(world, kit) -> None:
    async def ends(seen, reply):
        if seen.path == "/query":
            await reply.json({"0": {"engine_id": "e"}})
        else:
            await reply.json(kit.prefill_answer("stop", b"null"))

    _, d = await mooncake(world, kit, ends, hangs)
    kit.leaves_together(world.scheduler)
    await world.start()
    assert (await world.ask(BODY)).body == kit.prefill_answer("stop", b"null")
    assert world.scheduler.of(PrefillDone)[0].handed_off is False
    if d.seen:
        await asyncio.wait_for(d.seen[0].gone.wait(), 10)


@pytest.mark.parametrize("dialect", ["vllm", "openai"])
async def test_a_salt_goes_where_it_is_known(world, kit, dialect) -> None:
    d = await world.engine("d", answers(WHOLE), dialect=dialect, hands_off=False)
    kit.goes_whole(world.scheduler)
    await world.start()
    await world.ask(BODY | {"cache_salt": "tenantA"})
    assert d.seen[0].body == (BODY | {"cache_salt": "tenantA"} if dialect == "vllm" else BODY)


async def test_a_rank_is_named_in_every_request(world, kit) -> None:
    d = await world.engine("d", answers(WHOLE), data_parallel_rank=3)
    kit.goes_whole(world.scheduler)
    await world.start()
    await world.ask(BODY)
    assert d.seen[0].headers["x-data-parallel-rank"] == "3"
