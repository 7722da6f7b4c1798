"""The same bytes to nginx: what it lets through we let through, and the other way round, or it is said why not."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.http.cases import BOUNDS, CASES, Case
from tests.http.nginx import PROGRAM, nginx, statuses
from tests.http.nginx_differs import DIFFERS
from tests.http.streams import Read, requests_of

_AT_ONCE = 16


def test_reasons_belong_to_cases() -> None:
    assert set(DIFFERS) <= {case.name for case in CASES}


@pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed (Debian: nginx-light)")
async def test_nginx_decides_alike_or_it_is_said_why(tmp_path: Path) -> None:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def ask(case: Case) -> int:
        async with turn:
            return (await statuses(reference.port, case.sent, len(case.statuses))).count(200)

    async with nginx(tmp_path) as reference:
        served = await asyncio.gather(*map(ask, CASES))
        passed = Counter(body for _, body in reference.passed if body)
    alike = [case for case, theirs in zip(CASES, served, strict=True) if theirs == case.statuses.count(200)]
    assert sorted({case.name for case in CASES} - {case.name for case in alike} - set(DIFFERS)) == []
    ours = Counter(
        item.body for case in alike for item in requests_of([case.sent], BOUNDS) if isinstance(item, Read) and item.body
    )
    assert ours - passed == Counter(), "a request that both let through has another body there"
