"""The HTTP server against raw bytes: framing, limits, order, phases."""

import asyncio
import socket

import pytest

from vicinal.domain.effects import Answer
from vicinal.domain.events import ClientGone, RequestArrived
from vicinal.domain.outcome import Ending, Outcome
from vicinal.gateway.limits import Limits

BODY = {"model": "m", "prompt": [1, 2, 3, 4, 5]}


@pytest.fixture
async def echo(world, kit):
    """A gateway whose core refuses each request with its prompt's length, so that answers can be told apart."""
    world.scheduler.on(
        RequestArrived,
        lambda e: [Answer(e.request.id, Outcome(Ending.QUEUE_FULL, f"tokens {e.request.prompt_tokens}"))],
    )
    await world.start(limits=Limits(body_bytes=4000, head_bytes=2000))
    return world


def tokens(n: int) -> dict:
    return {"model": "m", "prompt": [1] * n}


async def test_requests_cut_at_every_byte_give_the_same_answer(echo, kit) -> None:
    client = await echo.client()
    for byte in kit.message(tokens(3), headers="X-Request-Id: b\r\n"):
        client.send(bytes([byte]))
        await asyncio.sleep(0)
    response = await client.response()
    assert (response.status, response.error["message"]) == (429, "tokens 3")
    assert response.headers["x-request-id"] == "b"


async def test_pipelined_requests_are_answered_in_order(echo, kit) -> None:
    client = await echo.client()
    client.send(b"".join(kit.message(tokens(n)) for n in range(1, 30)))
    said = [(await client.response()).error["message"] for _ in range(1, 30)]
    assert said == [f"tokens {n}" for n in range(1, 30)]


async def test_a_pipelined_request_waits_for_the_answer_before_it(world, kit) -> None:
    await world.start()
    client = await world.client()
    client.send(kit.message(tokens(1), headers="X-Request-Id: a\r\n") + kit.message(tokens(2)))
    client.send(kit.message(tokens(3)) * 3000)
    await world.scheduler.saw(RequestArrived)
    assert len(world.scheduler.of(RequestArrived)) == 1
    world.scheduler.on(
        RequestArrived,
        lambda e: [Answer(e.request.id, Outcome(Ending.QUEUE_FULL, f"tokens {e.request.prompt_tokens}"))],
    )
    world.gateway.relay.perform(Answer("a", Outcome(Ending.QUEUE_FULL, "tokens 1")))
    said = [(await client.response()).error["message"] for _ in range(3002)]
    assert said == ["tokens 1", "tokens 2"] + ["tokens 3"] * 3000


async def test_what_a_pipelining_client_sends_meanwhile_is_bounded(world, kit) -> None:
    await world.start(limits=Limits(drain_s=0.05))  # nothing is read, so only stopping ends this connection
    client = await world.client()
    client.post(BODY)
    await world.scheduler.saw(RequestArrived)
    connection = next(iter(world.gateway._server._connections))
    client.send(b"x" * 30_000_000)
    for _ in range(2000):
        if connection._reading_paused:
            break
        await asyncio.sleep(0)
    assert not connection._transport.is_reading()
    assert connection._reader.waiting_bytes < 1_000_000
    client.drop()


async def test_chunked_bodies(echo, kit) -> None:
    client = await echo.client()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(
        head + b'10;x=y\r\n{"model":"m","pr\r\n' + b'f\r\nompt":[1,2,3,4]\r\n' + b"1\r\n}\r\n0\r\nX-Trail: 1\r\n\r\n"
    )
    assert (await client.response()).error["message"] == "tokens 4"
    client.post(tokens(2))
    assert (await client.response()).error["message"] == "tokens 2"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", 413),
        (
            "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + "3e8\r\n"
            + "x" * 1000
            + "\r\n",
            413,
        ),
        ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400),
        ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("GET /health HTTP/1.1\r\nHost: x\r\nX: " + "y" * 3000 + "\r\n\r\n", 431),
        ("GET /health HTTP/1.1\r\nHost: x\r\nX: " + "y" * 70_000, 431),
        ("GET /" + "y" * 70_000, 414),
        ("NONSENSE\r\n\r\n", 400),
    ],
)
async def test_refusals_end_the_connection(echo, head, status) -> None:
    client = await echo.client()
    for start in range(0, len(head), 700):
        client.send(head[start : start + 700].encode())
        await asyncio.sleep(0)
    if "chunked\r\n\r\n3e8" in head:
        for _ in range(4):
            client.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
    response = await client.response()
    assert response.status == status
    assert response.error["message"]
    assert response.headers["connection"] == "close"
    assert await client.closed() == b""
    assert sum(echo.gateway.refusals.counts.values()) == 1


async def test_a_refused_client_that_still_sends_reads_its_refusal(echo) -> None:
    client = await echo.client()
    client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n")
    client.send(b"x" * 5_000_000)
    assert (await client.response()).status == 413


async def test_a_valid_request_before_a_malformed_one_is_answered_first(echo, kit) -> None:
    client = await echo.client()
    client.send(kit.message(tokens(3)) + b"NONSENSE\r\n\r\n")
    assert (await client.response()).error["message"] == "tokens 3"
    assert (await client.response()).status == 400
    assert await client.closed() == b""


async def test_expect_100_continue(echo, kit) -> None:
    client = await echo.client()
    head, body = kit.message(tokens(3), headers="Expect: 100-continue\r\n").split(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    assert (await client.head())[0] == 100
    client.send(body)
    assert (await client.response()).error["message"] == "tokens 3"


async def test_expect_100_continue_is_not_promised_for_too_large_a_body(echo) -> None:
    client = await echo.client()
    client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n")
    assert (await client.response()).status == 413


@pytest.mark.parametrize("last", ["HTTP/1.1\r\nConnection: close", "HTTP/1.0"])
async def test_the_last_request_of_a_connection_closes_it(echo, last) -> None:
    client = await echo.client()
    client.send(f"GET /health {last}\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    response = await client.response()
    assert (response.status, response.headers["connection"]) == (200, "close")
    assert await client.closed() == b""


async def test_the_other_routes(echo) -> None:
    client = await echo.client()
    client.send(b"GET /v1/models?x=1 HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    models, health = [await client.response() for _ in range(2)]
    assert [(m["id"], m["object"], m["max_model_len"]) for m in models.json["data"]] == [("m", "model", 1000)]
    assert (health.status, health.json) == (200, {"status": "ok"})


async def test_unknown_paths_and_wrong_methods(echo) -> None:
    client = await echo.client()
    client.send(
        b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n"
        b"GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    unknown, wrong, absolute = [await client.response() for _ in range(3)]
    assert (unknown.status, unknown.error["code"]) == (404, "unknown_path")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert absolute.status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", None),
        (b"POST /v1/comp", 408),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", 408),
        (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    ],
)
async def test_each_phase_has_its_time_out(world, sent, status) -> None:
    await world.start(limits=Limits(head_s=0.05, body_s=0.05, idle_s=0.05, linger_s=0.05))
    client = await world.client()
    client.send(sent)
    if status is not None:
        assert (await client.response()).status == status
    assert await client.closed() == b""


async def test_a_defect_of_the_core_is_a_500_and_loses_nobody_else(world, kit, caplog) -> None:
    def fails(event):
        raise RuntimeError("defect")

    world.scheduler.on(RequestArrived, fails)
    await world.start()
    response = await world.ask(BODY)
    assert (response.status, response.error["code"]) == (500, "internal_error")
    assert "defect" in caplog.text
    await world.scheduler.saw(ClientGone)
    world.scheduler.on(RequestArrived, lambda e: [Answer(e.request.id, Outcome(Ending.NO_ENDPOINT))])
    assert (await world.ask(BODY)).status == 503


async def test_a_port_in_use_is_named_with_the_way_out(world) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        await world.start()
        with pytest.raises(OSError, match=rf"127\.0\.0\.1:{port}.*in use.*another port"):
            await world.gateway._server.start("127.0.0.1", port)


async def test_health_says_when_the_gateway_stops(world, kit) -> None:
    await world.start()
    client = await world.client()
    client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await client.response()).status == 200
    world.gateway._server.stopping = True
    client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    response = await client.response()
    assert (response.status, response.headers["connection"]) == (503, "close")


async def test_a_client_too_many_is_closed_and_the_others_are_served(world) -> None:
    await world.start(limits=Limits(connections=1))
    first = await world.client()
    second = await world.client()
    assert await second.reader.read() == b""
    first.send(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await first.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    assert world.gateway.refusals.counts["too_many_connections"] == 1


async def test_an_answer_to_head_has_no_body_and_the_next_answer_follows(echo, kit) -> None:
    client = await echo.client()
    client.send(
        b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\nHEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + kit.message(tokens(7))
    )
    status, headers = await client.head()
    assert (status, headers["allow"]) == (405, "GET")
    assert int(headers["content-length"]) > 0
    assert (await client.head())[0] == 404
    assert (await client.response()).error["message"] == "tokens 7"
