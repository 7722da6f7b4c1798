"""Each case of the table against a real socket, whole and byte by byte."""

import asyncio

import pytest

from tests.http.cases import BOUNDS, CASES, Case, get
from tests.http.served import RawClient, serving

_LAST = get(line="GET /last HTTP/1.1")


async def _check(case: Case, *, torn: bool) -> None:
    async with serving(BOUNDS) as served:
        client = await RawClient.to(served.port)
        if torn:
            for byte in case.sent:
                client.send(bytes([byte]))
                await asyncio.sleep(0)
        else:
            client.send(case.sent)
        answers = [await client.answer() for _ in case.statuses]
        assert [status for status, _, _ in answers] == list(case.statuses)
        assert served.refused() == ({case.kind.value: 1} if case.kind else {})
        assert len(served.seen) == case.statuses.count(200)
        if case.kind is not None:
            assert b'"message":"' in answers[-1][2]
            assert b'"code":"%b"' % case.kind.encode() in answers[-1][2]
            assert answers[-1][1]["x-vicinal-reason"] == case.kind
            assert case.kind.meaning is not None
            assert case.kind.meaning.status == answers[-1][0]
        if case.kept:
            assert "connection" not in answers[-1][1]
            if case.sent.endswith(b"helloGET"):
                client.send(_LAST[3:])
            else:
                client.send(_LAST)
            assert (await client.answer())[0] == 200
            assert served.seen[-1].path == b"/last"
        else:
            assert answers[-1][1]["connection"] == "close"
            assert await client.end() == b""
        client.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_each_request_of_the_table_gets_what_it_says(case: Case) -> None:
    await _check(case, torn=False)


_TORN = [case for case in CASES if len(case.sent) < 1000 and (case.kept or case.kind is not None)]
"""Without what comes after a connection's end: a client that goes on sending then is reset."""


@pytest.mark.parametrize("case", _TORN, ids=lambda case: case.name)
async def test_a_case_gets_the_same_byte_by_byte(case: Case) -> None:
    await _check(case, torn=True)


def test_no_two_cases_share_a_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
