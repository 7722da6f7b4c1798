"""Connections that are closed without an answer: each has its counter, and the others go on."""

import asyncio

from tests.http.cases import get, post
from tests.http.served import RawClient, Served, serving
from vicinal.gateway.address_counts import AddressCounts
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind as Kind


async def counted(served: Served, kind: Kind) -> None:
    """Waits until `kind` is the one that was counted, once."""
    async with asyncio.timeout(10.0):
        while not served.refused():
            await asyncio.sleep(0.001)
    assert served.refused() == {kind.value: 1}


async def test_an_idle_connection_is_closed() -> None:
    async with serving(Limits(idle_s=0.05)) as served:
        client = await RawClient.to(served.port)
        client.send(get())
        assert (await client.answer())[0] == 200
        assert await client.end() == b""
        await counted(served, Kind.IDLE)
        client.close()


async def test_dripping_bytes_do_not_move_a_deadline() -> None:
    async with serving(Limits(head_s=0.1, linger_s=0.05)) as served:
        client = await RawClient.to(served.port)
        answer = asyncio.ensure_future(client.answer())
        for byte in get("A: " + "b" * 1000):
            if answer.done():
                break
            client.send(bytes([byte]))
            await asyncio.sleep(0.005)
        assert (await answer)[0] == 408
        await counted(served, Kind.HEAD_TOO_SLOW)
        client.close()


async def test_a_client_that_leaves_in_the_middle_of_a_request() -> None:
    async with serving(Limits()) as served:
        client = await RawClient.to(served.port)
        client.send(post("Content-Length: 5", body=b"he"))
        client.writer.write_eof()
        assert await client.end() == b""
        await counted(served, Kind.CUT_SHORT)
        assert served.seen == []
        client.close()


async def test_a_client_that_ends_its_sending_side_reads_what_is_answered_at_once() -> None:
    async with serving(Limits()) as served:
        client = await RawClient.to(served.port)
        client.send(get() + get())
        client.writer.write_eof()
        assert [(await client.answer())[0] for _ in range(2)] == [200, 200]
        assert await client.end() == b""
        assert served.refused() == {}
        client.close()


async def test_a_client_that_does_not_read_is_cut_and_costs_little_until_then() -> None:
    body = b"x" * 400_000
    async with serving(Limits(stall_s=0.3)) as served:
        client = await RawClient.to(served.port)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(post(f"Content-Length: {len(body)}", body=body) * 100)
        await counted(served, Kind.STALLED_READER)
        assert len(served.seen) < 50, "answers went on although nobody read them"
        client.writer.transport.abort()


async def test_connections_of_one_address_are_bounded_and_come_free_again() -> None:
    async with serving(Limits(address_connections=1)) as served:
        first = await RawClient.to(served.port)
        first.send(get())
        assert (await first.answer())[0] == 200
        second = await RawClient.to(served.port)
        assert await second.end() == b""
        await counted(served, Kind.TOO_MANY_OF_ADDRESS)
        first.close()
        for client in (first, second):
            client.close()
        async with asyncio.timeout(10.0):
            while served.server._connections:
                await asyncio.sleep(0.001)
        third = await RawClient.to(served.port)
        third.send(get())
        assert (await third.answer())[0] == 200
        third.close()


async def test_what_is_not_over_when_the_drain_is_over_is_cut() -> None:
    async with serving(Limits()) as served:
        served.server.handler = lambda request, responder: None
        client = await RawClient.to(served.port)
        client.send(get())
        await asyncio.sleep(0.05)
        await served.server.stop(0.01)
        assert await client.end() == b""
        await counted(served, Kind.NOT_DRAINED)
        client.close()


def test_addresses_count_by_what_a_client_cannot_choose() -> None:
    counts = AddressCounts(2)
    assert [counts.add(a) for a in ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2")] == [True, True, False, True]
    assert [counts.add(a) for a in ("fd00::1", "fd00::2%eth0", "fd00::3", "fd00:0:0:1::1")] == [True, True, False, True]
    for address in ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1"):
        counts.remove(address)
    assert counts.add("10.0.0.1")


def test_many_pipelined_requests_leave_others_their_turn() -> None:
    async def run() -> None:
        async with serving(Limits()) as served:
            flood, other = await RawClient.to(served.port), await RawClient.to(served.port)
            flood.send(get() * 5000)
            other.send(get(line="GET /other HTTP/1.1"))
            assert (await other.answer())[0] == 200
            for _ in range(5000):
                assert (await flood.answer())[0] == 200
            assert [r.path for r in served.seen].index(b"/other") < 5000
            flood.close()
            other.close()

    asyncio.run(run())
