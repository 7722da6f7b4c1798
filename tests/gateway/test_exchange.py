"""Requests through the gateway: hand-offs, failures, clients that leave. Real sockets on both sides."""

import asyncio
import contextlib
import json

import pytest

from vicinal.domain.effects import Answer, Cancel
from vicinal.domain.events import ClientGone, LegFailed, PrefillDone, RequestArrived, RequestFinished
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Leg

BODY = {"model": "m", "prompt": [1, 2, 3, 4, 5], "max_tokens": 9, "stream": False}
STREAMED = BODY | {"stream": True, "stream_options": {"include_usage": True}, "min_tokens": 2}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}


async def hangs(seen, reply):
    await asyncio.Event().wait()


def answers(body, status=200):
    async def script(seen, reply):
        await reply.json(body, status)

    return script


def streams(*events, usage=USAGE):
    async def script(seen, reply):
        await reply.open_stream()
        for event in events:
            await reply.event(event)
        if usage:
            await reply.event({"choices": [], "usage": usage})
        await reply.done()

    return script


WHOLE = {"id": "cmpl-1", "choices": [{"text": "Hi you"}], "usage": USAGE}


@pytest.mark.mission("B11")
async def test_a_hand_off_sends_two_legs_and_the_params_verbatim(world, kit) -> None:
    p = await world.engine("p", answers(kit.prefill_answer()))
    d = await world.engine("d", answers(WHOLE))
    kit.hands_off(world.scheduler)
    await world.start()
    response = await world.ask(BODY, headers="X-Request-Id: mine-1\r\nAuthorization: Bearer k\r\n")
    assert response.status == 200
    assert response.json == WHOLE
    assert response.headers["x-request-id"] == "mine-1"
    asked = p.seen[0].body
    assert (asked["max_tokens"], asked["stream"], asked["prompt"]) == (1, False, BODY["prompt"])
    assert asked["kv_transfer_params"]["do_remote_decode"] is True
    assert b'"kv_transfer_params":' + kit.PARAMS in d.seen[0].raw
    assert d.seen[0].body == BODY | {"kv_transfer_params": json.loads(kit.PARAMS)}
    for engine in (p, d):
        assert engine.seen[0].headers["x-request-id"] == "mine-1"
        assert engine.seen[0].headers["authorization"] == "Bearer k"
        assert engine.seen[0].path == "/v1/completions"
    assert world.scheduler.events[1:] == [
        PrefillDone("mine-1", 1, 4),
        RequestFinished("mine-1", 1, 2, 3),
    ]
    assert world.gateway.counters.handoffs == 1


@pytest.mark.mission("B11")
async def test_a_streamed_hand_off_passes_the_bytes_through(world, kit) -> None:
    p = await world.engine("p", answers(kit.prefill_answer()))
    await world.engine("d", streams(kit.text_event("Hi"), kit.text_event(" you\n\ndata: x")))
    kit.hands_off(world.scheduler)
    await world.start()
    response = await world.ask(STREAMED)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.body.decode().split("\n\n")[:-2]]
    assert events == [kit.text_event("Hi"), kit.text_event(" you\n\ndata: x"), {"choices": [], "usage": USAGE}]
    assert response.body.endswith(b"data: [DONE]\n\n")
    assert not {"stream_options", "min_tokens"} & set(p.seen[0].body)
    finished = await world.scheduler.saw(RequestFinished)
    assert (finished.output_tokens, finished.cached_tokens) == (2, 3)
    assert world.scheduler.kinds() == ["RequestArrived", "PrefillDone", "FirstToken", "RequestFinished"]


async def test_tokens_are_counted_where_a_stream_states_no_usage(world, kit) -> None:
    await world.engine("d", streams(*(kit.text_event(f"w{i}") for i in range(7)), usage=None))
    kit.goes_whole(world.scheduler)
    await world.start()
    await world.ask(STREAMED)
    done = await world.scheduler.saw(RequestFinished)
    assert (done.output_tokens, done.usage_asked) == (7, True)
    assert world.gateway.lengths.predict("m", 1000) == 7


async def test_the_core_is_told_that_a_client_asked_for_no_usage(world, kit) -> None:
    await world.engine("d", streams(kit.text_event("w"), usage=None))
    kit.goes_whole(world.scheduler)
    await world.start()
    await world.ask(BODY | {"stream": True})
    assert not (await world.scheduler.saw(RequestFinished)).usage_asked


@pytest.mark.mission("B11")
@pytest.mark.parametrize("chat", [False, True])
async def test_a_request_that_ends_at_its_first_token_is_answered_from_the_prefill_leg(world, kit, chat) -> None:
    whole = kit.prefill_answer("stop", b"null", chat)
    await world.engine("p", answers(whole))
    kit.hands_off(world.scheduler)
    await world.start()
    path = "/v1/chat/completions" if chat else "/v1/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]} if chat else BODY
    assert (await world.ask(body, path)).body == whole
    response = await world.ask(body | {"stream": True, "stream_options": {"include_usage": True}}, path)
    lines = response.body.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    events = [json.loads(line[6:]) for line in lines[:-2]]
    said = [c.get("delta", {}).get("content", c.get("text")) for e in events for c in e["choices"]]
    assert "".join(said) == "Hi"
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["usage"]["prompt_tokens"] == 5
    assert world.scheduler.of(PrefillDone)[0].handed_off is False
    assert world.scheduler.kinds()[:3] == ["RequestArrived", "PrefillDone", "RequestFinished"]


@pytest.mark.mission("B11")
async def test_without_params_the_decode_leg_computes_the_prompt_itself(world, kit) -> None:
    await world.engine("p", answers(kit.prefill_answer(params=b"null")))
    d = await world.engine("d", answers(WHOLE))
    kit.hands_off(world.scheduler)
    await world.start()
    assert (await world.ask(BODY)).json == WHOLE
    assert d.seen[0].body == BODY
    assert world.gateway.counters.handoffs_missing == 1


@pytest.mark.mission("B11")
@pytest.mark.parametrize("rogue", ["another attempt", "twice"])
async def test_a_core_that_errs_cannot_send_params_where_they_do_not_belong(world, kit, rogue) -> None:
    """What an attempt left is used once, by that attempt: otherwise the engine computes the prompt itself."""
    await world.engine("p", answers(kit.prefill_answer()))
    d = await world.engine("d", hangs)
    kit.hands_off(world.scheduler)
    attempts = [2] if rogue == "another attempt" else [1, 1]
    world.scheduler.on(PrefillDone, lambda e: [kit.dispatch(e.request_id, Leg.DECODE, "d", n) for n in attempts])
    await world.start()
    (await world.client()).post(BODY)
    last = await asyncio.wait_for(d.arrived.get(), 10)  # of two in one turn the first is dropped before it connects
    assert last.body == BODY, "no kv_transfer_params"


@pytest.mark.parametrize("leg", ["p", "d"])
async def test_a_client_fault_is_passed_on_with_its_body(world, kit, leg) -> None:
    error = {"error": {"message": "bad top_p", "type": "BadRequestError", "param": "top_p", "code": 400}}
    await world.engine("p", answers(error, 400) if leg == "p" else answers(kit.prefill_answer()))
    await world.engine("d", answers(error, 400))
    kit.hands_off(world.scheduler)
    await world.start()
    response = await world.ask(STREAMED)
    assert (response.status, response.json) == (400, error)
    failed = world.scheduler.of(LegFailed)[0]
    assert (failed.client_fault, failed.started) == (True, False)
    assert failed.reason == "the engine finds the request wrong: HTTP 400"


async def test_a_500_for_length_reaches_the_client_as_400(world, kit) -> None:
    await world.engine("d", answers({"error": {"message": "maximum context length is 7"}}, 500))
    kit.goes_whole(world.scheduler)
    await world.start()
    response = await world.ask(BODY)
    assert response.status == 400
    assert "maximum context length" in response.error["message"]


async def dies(seen, reply):
    reply.die()


async def dies_in_the_body(seen, reply):
    await reply.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
    reply.die()


async def dies_in_the_first_event(seen, reply):
    await reply.open_stream()
    await reply.chunk(b'data: {"id"')
    reply.die()


async def errs_in_the_first_event(seen, reply):
    await reply.open_stream()
    await reply.event({"error": {"message": "boom", "code": 500}})
    await reply.done()


async def speaks_nonsense(seen, reply):
    await reply.send(b"SSH-2.0-x\r\n\r\n")


@pytest.mark.mission("B12")
@pytest.mark.parametrize(
    "failure",
    [dies, dies_in_the_body, dies_in_the_first_event, errs_in_the_first_event, speaks_nonsense, answers({}, 500)],
)
@pytest.mark.parametrize("leg", [Leg.PREFILL, Leg.WHOLE])
async def test_an_engine_that_fails_before_the_first_byte_is_replaced(world, kit, failure, leg) -> None:
    bad = await world.engine("bad", failure)
    await world.engine("p", answers(kit.prefill_answer()))
    good = await world.engine("d", streams(kit.text_event("Hi")))
    kit.hands_off(world.scheduler)
    world.scheduler.on(RequestArrived, lambda e: [kit.dispatch(e.request.id, leg, "bad")])
    again = Leg.PREFILL if leg is Leg.PREFILL else Leg.WHOLE
    world.scheduler.on(
        LegFailed, lambda e: [kit.dispatch(e.request_id, again, "p" if again is Leg.PREFILL else "d", e.attempt + 1)]
    )
    await world.start()
    response = await world.ask(STREAMED, headers="X-Request-Id: q\r\n")
    assert response.status == 200
    assert response.body.endswith(b"data: [DONE]\n\n")
    failed = world.scheduler.of(LegFailed)
    assert [(f.attempt, f.leg, f.client_fault, f.started) for f in failed] == [(1, leg, False, False)]
    assert bad.seen[0].headers["x-request-id"] == "q"
    assert good.seen[0].headers["x-request-id"] == "q.2"


@pytest.mark.mission("B12")
async def test_an_engine_that_is_not_there_fails_its_leg(world, kit) -> None:
    gone = await world.engine("d", hangs)
    await gone.stop()
    kit.goes_whole(world.scheduler)
    await world.start()
    response = await world.ask(BODY)
    assert (response.status, response.error["code"]) == (502, "engine_failed")
    assert response.headers["retry-after"] == "2"
    assert "no connection to 127.0.0.1" in world.scheduler.of(LegFailed)[0].reason


@pytest.mark.mission("B12")
async def test_an_endpoint_that_left_the_fleet_fails_its_leg(world, kit) -> None:
    await world.engine("d", answers(WHOLE))
    kit.goes_whole(world.scheduler)
    await world.start()
    assert (await world.ask(BODY)).status == 200
    world.gateway.replace_endpoints([])
    assert (await world.ask(BODY)).status == 502
    assert "left the fleet" in world.scheduler.of(LegFailed)[0].reason


@pytest.mark.mission("B12")
@pytest.mark.parametrize("end", ["die", "close", "no_done"])
async def test_a_stream_that_breaks_ends_with_an_error_event_and_the_connection(world, kit, end) -> None:
    async def script(seen, reply):
        await reply.open_stream()
        await reply.event(kit.text_event("Hi"))
        if end == "die":
            reply.die()
        elif end == "close":
            reply.writer.close()
        else:
            await reply.send(b"0\r\n\r\n")

    await world.engine("d", script)
    kit.goes_whole(world.scheduler)
    await world.start()
    client = await world.client()
    client.post(STREAMED)
    response = await client.response()
    events = response.body.decode().split("\n\n")
    assert json.loads(events[0][6:]) == kit.text_event("Hi")
    assert json.loads(events[1][6:])["error"]["code"] == "stream_broken"
    assert await client.closed() == b""
    assert world.scheduler.of(LegFailed)[0].started is True
    assert world.gateway.counters.streams_broken == 1


@pytest.mark.mission("B12")
async def test_an_engine_that_falls_silent_fails_its_leg(world, kit) -> None:
    from vicinal.gateway.limits import Limits

    d = await world.engine("d", hangs)
    kit.goes_whole(world.scheduler)
    await world.start(limits=Limits(engine_silence_s=0.05))
    assert (await world.ask(BODY)).status == 502
    assert "silent" in world.scheduler.of(LegFailed)[0].reason
    await asyncio.wait_for(d.seen[0].gone.wait(), 10)


async def streams_then_hangs(seen, reply):
    await reply.open_stream()
    await reply.event({"choices": [{"text": "Hi"}]})
    await asyncio.Event().wait()


@pytest.mark.mission("B11")
@pytest.mark.parametrize("phase", ["prefill", "decode", "stream"])
async def test_a_client_that_leaves_frees_the_engine_at_once(world, kit, phase) -> None:
    p = await world.engine("p", hangs if phase == "prefill" else answers(kit.prefill_answer()))
    d = await world.engine("d", streams_then_hangs if phase == "stream" else hangs)
    kit.hands_off(world.scheduler)
    await world.start()
    client = await world.client()
    client.post(STREAMED)
    working = p if phase == "prefill" else d
    seen = await asyncio.wait_for(working.arrived.get(), 10)
    if phase == "stream":
        await client.head()
        await client.chunk()
    client.drop()
    await world.scheduler.saw(ClientGone)
    await asyncio.wait_for(seen.gone.wait(), 10)
    assert world.gateway.relay.under_way == 0
    assert world.scheduler.kinds()[-1] == "ClientGone"


async def test_a_client_that_leaves_while_its_request_is_held_is_reported(world, kit) -> None:
    await world.start()
    client = await world.client()
    client.post(BODY)
    await world.scheduler.saw(RequestArrived)
    client.drop()
    await world.scheduler.saw(ClientGone)


async def test_a_client_that_leaves_before_its_request_is_whole_is_nobody(world, kit) -> None:
    await world.engine("d", answers(WHOLE))
    kit.goes_whole(world.scheduler)
    await world.start()
    client = await world.client()
    client.send(kit.message(BODY)[:-5])
    await client.writer.drain()
    client.drop()
    assert (await world.ask(BODY)).status == 200
    assert world.scheduler.kinds() == ["RequestArrived", "RequestFinished"]


async def test_cancel_closes_the_leg_of_its_attempt_only(world, kit) -> None:
    d = await world.engine("d", hangs)
    kit.goes_whole(world.scheduler)
    await world.start()
    client = await world.client()
    client.post(BODY, headers="X-Request-Id: c\r\n")
    seen = await asyncio.wait_for(d.arrived.get(), 10)
    world.gateway.relay.perform(Cancel("c", 2))
    assert world.gateway._pool.busy_count == 1
    world.gateway.relay.perform(Cancel("c", 1))
    await asyncio.wait_for(seen.gone.wait(), 10)
    assert world.gateway.relay.under_way == 1
    world.gateway.relay.perform(Answer("c", Outcome(Ending.WAITED_TOO_LONG, "held too long", 0.2)))
    response = await client.response()
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert response.error == {
        "message": "held too long",
        "type": "service_unavailable_error",
        "param": None,
        "code": "waited_too_long",
    }


async def test_a_request_id_is_kept_when_sane_and_not_in_use(world, kit) -> None:
    await world.start()
    client = await world.client()
    client.post(BODY, headers="X-Request-Id: same\r\n")
    await world.scheduler.saw(RequestArrived)
    world.scheduler.on(RequestArrived, lambda e: [Answer(e.request.id, Outcome(Ending.NO_ENDPOINT))])
    other = (await world.ask(BODY, headers="X-Request-Id: same\r\n")).headers["x-request-id"]
    odd = (await world.ask(BODY, headers="X-Request-Id: a b\r\n")).headers["x-request-id"]
    long = (await world.ask(BODY, headers=f"X-Request-Id: {'a' * 129}\r\n")).headers["x-request-id"]
    fine = (await world.ask(BODY, headers=f"X-Request-Id: {'a' * 128}\r\n")).headers["x-request-id"]
    assert fine == "a" * 128
    assert len({"same", other, odd, long, "a b", "a" * 129}) == 6
    world.gateway.relay.perform(Answer("same", Outcome(Ending.NO_ENDPOINT)))
    assert (await client.response()).headers["x-request-id"] == "same"


async def test_a_closed_keep_alive_connection_is_retried_once(world, kit) -> None:
    async def script(seen, reply):
        await reply.json(WHOLE)
        if len(d.seen) == 1:
            served.set()
            await drop.wait()
            reply.die()

    served, drop = asyncio.Event(), asyncio.Event()
    d = await world.engine("d", script)
    kit.goes_whole(world.scheduler)
    await world.start()
    assert (await world.ask(BODY)).status == 200
    idle = next(iter(world.gateway._pool._idle.values()))[0]
    # the engine gets the second request on the old connection and closes it without a byte
    original = idle.call

    def call(message, sink):
        drop.set()
        original(message, sink)

    idle.call = call
    assert (await world.ask(BODY)).status == 200
    assert world.gateway.counters.stale_retries == 1
    assert d.connections == 2


async def test_engine_connections_are_reused(world, kit) -> None:
    d = await world.engine("d", answers(WHOLE))
    kit.goes_whole(world.scheduler)
    await world.start()
    client = await world.client()
    for _ in range(5):
        client.post(BODY)
        assert (await client.response()).status == 200
    assert d.connections == 1


async def test_a_client_that_does_not_read_stops_the_engine(world, kit) -> None:
    total = 200
    event = kit.text_event("x" * 100_000)
    paused = asyncio.Event()

    async def script(seen, reply):
        connection = next(iter(world.gateway._pool._busy))
        pause = connection.pause
        connection.pause = lambda: (pause(), paused.set())
        await reply.open_stream()
        for _ in range(total):
            await reply.event(event)
        await reply.done()

    await world.engine("d", script)
    kit.goes_whole(world.scheduler)
    await world.start()
    client = await world.client()
    client.writer.transport.pause_reading()
    client.post(STREAMED)
    await asyncio.wait_for(paused.wait(), 10)
    to_client = next(iter(world.gateway._server._connections))._transport
    from_engine = next(iter(world.gateway._pool._busy))._transport
    assert not from_engine.is_reading()
    assert to_client.get_write_buffer_size() < 1_000_000
    client.writer.transport.resume_reading()
    response = await client.response()
    assert response.body.count(b"\n\n") == total + 1


async def test_a_client_that_never_reads_is_cut_off(world, kit) -> None:
    from vicinal.gateway.limits import Limits

    async def script(seen, reply):
        await reply.open_stream()
        while True:
            await reply.event(kit.text_event("x" * 100_000))

    d = await world.engine("d", script)
    kit.goes_whole(world.scheduler)
    await world.start(limits=Limits(stall_s=0.1))
    client = await world.client()
    client.writer.transport.pause_reading()
    client.post(STREAMED)
    await world.scheduler.saw(ClientGone)
    await asyncio.wait_for(d.seen[0].gone.wait(), 10)


async def test_stop_lets_a_running_stream_finish_and_takes_no_more(world, kit) -> None:
    go = asyncio.Event()

    async def script(seen, reply):
        await reply.open_stream()
        await reply.event(kit.text_event("Hi"))
        await go.wait()
        await reply.done()

    await world.engine("d", script)
    kit.goes_whole(world.scheduler)
    await world.start()
    client = await world.client()
    client.post(STREAMED)
    await client.head()
    stopping = asyncio.ensure_future(world.gateway.stop())
    first = await client.chunk()
    with contextlib.suppress(ConnectionError):  # refused, or accepted in the last moment and closed
        assert await (await world.client()).closed() == b""
    go.set()
    assert b"Hi" in first
    assert await client.chunk() == b"data: [DONE]\n\n"
    await stopping
    assert world.scheduler.kinds()[-1] == "RequestFinished"


async def test_stop_cuts_what_does_not_finish(world, kit) -> None:
    from vicinal.gateway.limits import Limits

    await world.engine("d", streams_then_hangs)
    kit.goes_whole(world.scheduler)
    await world.start(limits=Limits(drain_s=0.05))
    client = await world.client()
    client.post(STREAMED)
    await client.head()
    await world.gateway.stop()
    assert world.scheduler.kinds()[-1] == "ClientGone"


@pytest.mark.parametrize("end", ["answer", "stream", "prefill_answer", "client_fault"])
async def test_a_request_that_follows_in_the_same_packet_has_a_name_of_its_own(world, kit, end) -> None:
    """It comes while the one before it ends, before the core knows of that: one of the same name would be refused."""
    script = {
        "answer": answers(WHOLE),
        "stream": streams(kit.text_event("a")),
        "prefill_answer": answers(kit.prefill_answer("stop", b"null")),
        "client_fault": answers({"error": {"message": "no"}}, 400),
    }[end]
    await world.engine("p", script)
    await world.engine("d", script)
    if end == "prefill_answer":
        kit.hands_off(world.scheduler)
    else:
        kit.goes_whole(world.scheduler)
    await world.start()
    client = await world.client()
    body = BODY | {"stream": end == "stream"}
    client.send(kit.message(body, headers="X-Request-Id: same\r\n") * 2)
    assert (await client.response()).status == (await client.response()).status
    last = LegFailed if end == "client_fault" else RequestFinished
    await world.scheduler.saw(last, 2)
    first, second = [event.request.id for event in world.scheduler.of(RequestArrived)]
    assert first == "same" != second
    assert [event.request_id for event in world.scheduler.of(last)] == [first, second]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (422, {"detail": [{"loc": ["body", "prompt"], "msg": "wrong", "input": "SECRET prompt"}]}),
        (400, {"error": {"message": "bad value: SECRET prompt"}}),
    ],
)
async def test_what_an_engine_quotes_of_a_request_reaches_the_client_only(world, kit, status, body) -> None:
    await world.engine("d", answers(body, status))
    kit.goes_whole(world.scheduler)
    await world.start()
    response = await world.ask(BODY)
    assert (response.status, response.json) == (status, body)
    failed = await world.scheduler.saw(LegFailed)
    assert failed.client_fault
    assert str(status) in failed.reason
    assert "SECRET" not in failed.reason


async def test_the_reason_of_a_failed_leg_is_one_line_of_bounded_length(world, kit) -> None:
    await world.engine("d", answers({"error": {"message": "x\n" * 1_000_000}}, 500))
    kit.goes_whole(world.scheduler)
    await world.start()
    assert (await world.ask(BODY)).status == 502
    reason = (await world.scheduler.saw(LegFailed)).reason
    assert len(reason) < 1000
    assert len(reason.splitlines()) == 1


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("leg", ["p", "d"])
async def test_an_answer_nested_beyond_reading_leaves_nobody_waiting(world, kit, status, leg) -> None:
    deep = b'{"error":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    await world.engine("p", answers(deep if leg == "p" else kit.prefill_answer(), status if leg == "p" else 200))
    await world.engine("d", answers(deep, status))
    kit.hands_off(world.scheduler)
    await world.start()
    assert (await world.ask(BODY)).status == 502  # nobody can say whether it is whole
    await world.scheduler.saw(LegFailed)


async def test_a_prefill_answer_that_cannot_be_told_as_a_stream_fails_its_leg(world, kit) -> None:
    strange = {"choices": [{"finish_reason": "stop", "message": ["Hi"]}]}
    await world.engine("p", answers(strange))
    kit.hands_off(world.scheduler)
    await world.start()
    chat = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
    assert (await world.ask(chat, "/v1/chat/completions")).status == 502


async def test_an_engine_that_ends_a_stream_in_order_with_an_error_has_failed(world, kit) -> None:
    """vLLM ends a stream with an event of the error and [DONE] when its engine dies."""
    error = {"error": {"message": "EngineCore encountered an issue", "type": "InternalServerError", "code": 500}}
    await world.engine("d", streams(kit.text_event("a"), error, usage=None))
    kit.goes_whole(world.scheduler)
    await world.start()
    response = await world.ask(STREAMED)
    assert response.status == 200
    assert json.dumps(error).encode() in response.body
    assert response.body.endswith(b"data: [DONE]\n\n")
    failed = await world.scheduler.saw(LegFailed)
    assert (failed.started, failed.client_fault) == (True, False)
    assert failed.reason == "HTTP 500"
    assert not world.scheduler.of(RequestFinished)
    assert world.gateway.counters.streams_broken == 1
