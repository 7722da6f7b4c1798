"""Long bodies through the gateway, with a real reader process: answered as short ones are, whatever becomes of it."""

import asyncio
import gc
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

import vicinal
from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.events import ClientGone, RequestArrived
from vicinal.domain.ids import ModelId, RequestId, TenantId
from vicinal.domain.request import BATCH
from vicinal.engines.long_body import in_pieces
from vicinal.gateway.caller import ANYBODY, Caller
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.limits import Limits
from vicinal.gateway.matching import Matching
from vicinal.gateway.parse import RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.reading.room import ReadingRoom
from vicinal.gateway.trust import TrustGroups
from vicinal.tokenizer.kinds import PromptKind
from vicinal.tokenizer.tokenizer import Tokenizer

FOLDER = Path(vicinal.__file__).parent / "data" / "tiny-model"
M = ModelId("m")
WORDS = "The cache of a prefix 缓存 belongs to whoever computed it. "
CHAT = "/v1/chat/completions"
ANSWER = {"id": "c", "choices": [{"text": "Hi"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


def model(tokens_max: int = 10**7) -> ServedModel:
    return ServedModel(M, 16, tokens_max, Tokenizer.load(FOLDER), str(FOLDER))


async def answers(seen, reply) -> None:
    await reply.json(ANSWER)


BODIES = {
    "text": (False, {"model": "m", "prompt": WORDS * 4000, "max_tokens": 9}),
    "ids": (False, {"model": "m", "prompt": list(range(1000)) * 60, "max_tokens": 9, "ignore_eos": True}),
    "texts": (False, {"model": "m", "prompt": [WORDS * 2000] * 2}),
    "chat": (True, {"model": "m", "messages": [{"role": "user", "content": WORDS * 4000}], "stream": True}),
    "image": (
        True,
        {
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "A" * 300_000}}]}],
        },
    ),
    "unknown model": (False, {"model": "x", "prompt": WORDS * 4000}),
    "gateway field": (False, {"model": "m", "prompt": WORDS * 4000, "kv_transfer_params": {}}),
    "wrong type": (True, {"model": "m", "messages": WORDS * 4000}),
    "no role": (True, {"model": "m", "messages": [{"content": WORDS * 4000}]}),
}


def room(counters: GatewayCounters | None = None, matching: Matching | None = None, **limits: float) -> ReadingRoom:
    made = Limits(**limits)  # type: ignore[arg-type]
    trust = TrustGroups({TenantId("a"): "ours"})
    return ReadingRoom([model()], trust, matching or Matching(), counters or GatewayCounters(), made)


@pytest.mark.mission("B11")
@pytest.mark.parametrize("by_text", [False, True])
@pytest.mark.parametrize("kind", BODIES)
async def test_a_reader_says_what_the_parser_says(kind, by_text) -> None:
    chat, body = BODIES[kind]
    raw = json.dumps(body).encode()
    matching = Matching()
    if by_text:
        matching.use_text(M, PromptKind.PLAIN, "differs")
        matching.use_text(M, PromptKind.CHAT, "differs")
    trust, caller = TrustGroups({TenantId("a"): "ours"}), Caller(TenantId("a"), frozenset([M]), BATCH)
    counters, apart = GatewayCounters(), GatewayCounters()
    parser = RequestParser([model()], OutputLengths(), counters, matching, trust)
    name = RequestId("r")
    reading = room(apart, matching)
    expected, refusal = outcome(lambda: (parser.chat if chat else parser.completion)(name, raw, caller))
    try:
        parsed, long = await reading.read(in_pieces(raw), caller, chat=chat)
    except ApiError as error:
        told = error
    else:
        told = None
        assert parsed.request.gateway_cpu_s > 0
        assert untimed(parser.adopt(parsed, name)) == untimed(expected)
        assert {field: json.loads(raw[slice(*place)]) for field, place in long.places.items()} == body
    finally:
        await reading.close()
    assert words(told) == words(refusal)
    assert apart.estimated_prompts == counters.estimated_prompts
    assert (apart.long_bodies, apart.readers_lost) == (1, 0)


def untimed(parsed):
    """But for what reading it took."""
    return replace(parsed, request=replace(parsed.request, gateway_cpu_s=0.0))


def outcome(parse):
    """What parsing gives, or raises."""
    try:
        return parse(), None
    except ApiError as error:
        return None, error


def words(error: ApiError | None):
    return error and (error.status, error.message, error.param, error.code)


async def test_long_bodies_take_the_way_of_short_ones(world, kit) -> None:
    engine = await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()])
    raw = json.dumps(BODIES["text"][1]).encode()
    response = await world.ask(raw, headers="X-Request-Id: mine\r\nAuthorization: Bearer k\r\n")
    assert (response.status, response.json) == (200, ANSWER)
    assert response.headers["x-request-id"] == "mine"
    assert engine.seen[0].raw == raw
    assert engine.seen[0].headers["authorization"] == "Bearer k"
    assert engine.seen[0].headers["x-request-id"] == "mine"
    arrived = (await world.scheduler.saw(RequestArrived)).request
    assert arrived.exact
    assert arrived.blocks == arrived.prompt_tokens // 16
    assert world.gateway.counters.long_bodies == 1


async def test_a_hand_off_and_a_salt_are_spliced_into_long_bodies(world, kit) -> None:
    p = await world.engine("p", lambda seen, reply: reply.json(kit.prefill_answer()))
    d = await world.engine("d", answers)
    kit.hands_off(world.scheduler)
    trust = TrustGroups({}, True)
    await world.start(models=[model()], trust=trust)
    body = BODIES["text"][1] | {"min_tokens": 3, "cache_salt": "own"}
    assert (await world.ask(body)).status == 200
    salt = trust.salt(TenantId("default"), "own")
    assert p.seen[0].body == {
        "model": "m",
        "prompt": body["prompt"],
        "max_tokens": 1,
        "stream": False,
        "cache_salt": salt,
        "kv_transfer_params": p.seen[0].body["kv_transfer_params"],
    }
    assert d.seen[0].body == body | {"cache_salt": salt, "kv_transfer_params": json.loads(kit.PARAMS)}
    assert b'"kv_transfer_params":' + kit.PARAMS in d.seen[0].raw


async def test_a_refused_long_body_leaves_its_connection_usable(world, kit) -> None:
    await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model(100)])
    client = await world.client()
    for _ in range(2):
        client.post(BODIES["text"][1])
        response = await client.response()
        assert response.status == 400
        assert response.error["code"] == "context_length_exceeded"
    client.post({"model": "m", "prompt": "short"})
    assert (await client.response()).status == 200


async def test_answers_keep_the_order_of_a_pipelining_client(world, kit) -> None:
    engine = await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()])
    client = await world.client()
    client.post(BODIES["text"][1], headers="X-Request-Id: long\r\n")
    client.post({"model": "m", "prompt": "short"}, headers="X-Request-Id: short\r\n")
    assert [(await client.response()).headers["x-request-id"] for _ in range(2)] == ["long", "short"]
    assert [seen.headers["x-request-id"] for seen in engine.seen] == ["long", "short"]


async def test_two_long_bodies_of_one_name_become_two_requests(world, kit) -> None:
    engine = await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()])
    first, second = await world.client(), await world.client()
    for client in (first, second):
        client.post(BODIES["text"][1], headers="X-Request-Id: same\r\n")
    assert (await first.response()).status == (await second.response()).status == 200
    assert len(engine.seen) == 2


async def test_a_client_that_leaves_while_its_body_is_read_costs_no_request(world, kit) -> None:
    await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()])
    await world.gateway.reading.open()
    pid = world.gateway.reading.process_id
    os.kill(pid, signal.SIGSTOP)  # it takes as long as we like
    try:
        leaver, stayer = await world.client(), await world.client()
        leaver.post(BODIES["text"][1])
        await until(lambda: world.gateway.counters.requests == 1)
        leaver.drop()
        stayer.post(BODIES["ids"][1])
        await until(lambda: world.gateway.counters.requests == 2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (await stayer.response()).status == 200
    assert len(world.scheduler.of(RequestArrived)) == 1
    assert not world.scheduler.of(ClientGone)
    assert world.gateway.counters.clients_gone == 1


async def test_a_reader_that_dies_is_replaced_and_its_body_read_again(world, kit) -> None:
    engine = await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()])
    await world.gateway.reading.open()
    pid = world.gateway.reading.process_id
    os.kill(pid, signal.SIGSTOP)
    client = await world.client()
    client.post(BODIES["text"][1])
    await until(lambda: world.gateway.counters.requests == 1)
    os.kill(pid, signal.SIGKILL)
    assert (await client.response()).status == 200
    assert len(engine.seen) == 1
    assert world.gateway.reading.process_id != pid
    counters = world.gateway.counters
    assert (counters.readers_lost, counters.bodies_unread, counters.long_bodies) == (1, 0, 1)


@pytest.mark.mission("B12")
async def test_a_body_that_ends_two_readers_is_refused_and_the_next_is_read() -> None:
    counters = GatewayCounters()
    reading = room(counters)
    body = in_pieces(json.dumps(BODIES["text"][1]).encode())
    try:
        await reading.open()
        first = reading.process_id
        os.kill(first, signal.SIGSTOP)
        answer = asyncio.ensure_future(reading.read(body, ANYBODY, chat=False))
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        await until(lambda: reading.process_id not in (None, first))
        second = reading.process_id
        os.kill(second, signal.SIGKILL)
        with pytest.raises(ApiError) as refused:
            await answer
        assert (refused.value.status, refused.value.code) == (503, "body_not_read")
        assert (counters.readers_lost, counters.bodies_unread) == (2, 1)
        parsed, _ = await reading.read(body, ANYBODY, chat=False)
        assert parsed.request.exact
    finally:
        await reading.close()


async def test_a_body_that_takes_too_long_is_refused_and_the_next_is_read(world, kit) -> None:
    await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()], limits=Limits(reading_s=3.0))
    await world.gateway.reading.open()
    os.kill(world.gateway.reading.process_id, signal.SIGSTOP)
    response = await world.ask(BODIES["text"][1])
    assert (response.status, response.error["code"]) == (503, "body_not_read")
    assert response.headers["retry-after"] == "1"
    assert (await world.ask(BODIES["text"][1])).status == 200


async def test_stopping_refuses_whoever_still_waits() -> None:
    reading = room()
    await reading.open()
    os.kill(reading.process_id, signal.SIGSTOP)
    body = in_pieces(json.dumps(BODIES["text"][1]).encode())
    waiting = [asyncio.ensure_future(reading.read(body, ANYBODY, chat=False)) for _ in range(3)]
    await asyncio.sleep(0.01)
    pid = reading.process_id
    await reading.close()
    for answer in waiting:
        with pytest.raises(ApiError, match="stopping"):
            await answer
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_shorter_bodies_go_first_and_long_ones_do_not_wait_for_ever() -> None:
    reading = room()
    await reading.open()
    order = []

    async def read(name: str, chars: int) -> None:
        raw = json.dumps({"model": "m", "prompt": "a" * chars}).encode()
        await reading.read(in_pieces(raw), ANYBODY, chat=False)
        order.append(name)

    os.kill(reading.process_id, signal.SIGSTOP)
    tasks = [asyncio.ensure_future(read("first", 100_000))]
    await asyncio.sleep(0.01)
    tasks += [asyncio.ensure_future(read(f"{chars}", chars)) for chars in (3_000_000, 100_000, 2_000_000)]
    await asyncio.sleep(0.01)
    os.kill(reading.process_id, signal.SIGCONT)
    try:
        await asyncio.gather(*tasks)
    finally:
        await reading.close()
    assert order == ["first", "100000", "2000000", "3000000"]


@pytest.mark.mission("B12")
@pytest.mark.parametrize("way", ["whole", "streamed", "handed off", "refused", "failed"])
async def test_what_long_bodies_take_is_given_back_without_a_garbage_collection(world, kit, way) -> None:
    async def streams(seen, reply) -> None:
        await reply.open_stream()
        await reply.event(kit.text_event("Hi"))
        await until(lambda: world.gateway._server.long_bodies.held_bytes == 0)
        await reply.event({"choices": [], "usage": ANSWER["usage"]})
        await reply.done()

    async def dies(seen, reply) -> None:
        reply.die()

    scripts = {"streamed": streams, "failed": dies}
    await world.engine("p", lambda seen, reply: reply.json(kit.prefill_answer()))
    await world.engine("d", scripts.get(way, answers))
    (kit.hands_off if way == "handed off" else kit.goes_whole)(world.scheduler)
    await world.start(models=[model(100) if way == "refused" else model()])
    gc.disable()
    try:
        response = await world.ask(BODIES["text"][1] | {"stream": way == "streamed"})
        assert response.status == {"refused": 400, "failed": 502}.get(way, 200)
        await until(lambda: world.gateway._server.long_bodies.held_bytes == 0)
    finally:
        gc.enable()


async def test_without_room_a_long_body_is_refused_and_short_ones_are_not(world, kit) -> None:
    await world.engine("d", answers)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()], limits=Limits(long_bodies_bytes=300_000))
    response = await world.ask(BODIES["text"][1])
    assert response.status == 503
    assert response.headers["retry-after"] == "1"
    assert (await world.ask({"model": "m", "prompt": "short"})).status == 200
    assert (await world.ask({"model": "m", "prompt": "b" * 100_000})).status == 200
    assert world.gateway.counts()["http_refusals"]["no_room_for_body"] == 1


class Refuses(asyncio.Protocol):
    """An engine that answers a head, and reads no further."""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(b"HTTP/1.1 413 X\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        self.transport.pause_reading()
        asyncio.get_running_loop().call_later(0.5, self.transport.abort)


async def test_an_engine_that_answers_before_the_body_is_sent_costs_its_connection_only(world, kit) -> None:
    engine = await world.engine("d", answers)
    engine._server.close()
    await engine._server.wait_closed()
    engine._server = await asyncio.get_running_loop().create_server(Refuses, "127.0.0.1", engine.port)
    kit.goes_whole(world.scheduler)
    await world.start(models=[model()])
    image = {"type": "image_url", "image_url": {"url": "A" * 14_000_000}}
    for _ in range(2):
        response = await world.ask({"model": "m", "messages": [{"role": "user", "content": [image]}]}, CHAT)
        assert response.status == 413
        await until(lambda: world.gateway._pool.busy_count == 0)
    await asyncio.sleep(0.6)  # until the engine's side is closed, too


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)
