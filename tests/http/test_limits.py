"""The bounds have one truth: a configuration that says nothing gives what the gateway's rooms take for granted."""

import asyncio

from tests.http.cases import get, post
from tests.http.served import RawClient, serving
from vicinal.config.default import default_cluster
from vicinal.gateway.limits import Limits
from vicinal.wiring.served import limits


def test_a_configuration_that_says_nothing_has_the_bounds_of_the_gateway() -> None:
    assert limits(default_cluster()) == Limits()


async def test_a_body_of_many_small_chunks_comes_whole_and_leaves_others_their_turns() -> None:
    body = b"abcdefghij" * 2000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    async with serving(Limits()) as served:
        crumbs = await RawClient.to(served.port)
        loop, turns = asyncio.get_running_loop(), 0

        def turn() -> None:
            nonlocal turns
            if not served.seen:
                turns += 1
                loop.call_soon(turn)

        crumbs.send(post("Transfer-Encoding: chunked", body=chunks) + get())
        turn()
        assert [(await crumbs.answer())[::2] for _ in range(2)] == [(200, body), (200, b"")]
        assert turns >= len(body) // 256
        crumbs.close()
