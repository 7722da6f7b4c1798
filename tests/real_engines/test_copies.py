"""A copy made by a hand-off between real engines is a local hit for whoever comes next."""

from pathlib import Path

import pytest

from tests.real_engines.conftest import Pair
from tests.real_engines.engine import BLOCK_TOKENS, MODEL
from tests.real_engines.test_hand_off import HIT, PAIRS_ONLY, PULLED
from tests.real_engines.world import prompt, world

PREFIX_TOKENS = 10 * BLOCK_TOKENS


@pytest.mark.mission("C5")
@pytest.mark.parametrize(("source", "target"), [("p0", "d0"), ("d0", "p0")])
async def test_a_copied_prefix_is_a_local_hit(fresh: Pair, tmp_path: Path, source: str, target: str) -> None:
    """From either engine to the other: roles are about requests. Nobody but the copy told the target of the prefix."""
    prefix, rest = prompt(7, PREFIX_TOKENS), prompt(8, 50)
    async with world(fresh.both, tmp_path, PAIRS_ONLY) as here:
        expected = await here.directly(source, [*prefix, *rest], 16)
        await here.until_quiet(source)
        order = {"target": target, "request": {"model": MODEL, "prompt": prefix}}
        async with here.http.post(f"{here.live.admin_url}/copies", json=order) as answer:
            said = await answer.json()
            assert answer.status == 200, said
        assert (said["source"], said["target"], said["moved_tokens"]) == (source, target, PREFIX_TOKENS)
        await here.until_idle()
        await here.until_quiet(target)
        assert here.known(target) == PREFIX_TOKENS // BLOCK_TOKENS
        before = await here.figures(target)
        assert await here.directly(target, [*prefix, *rest], 16) == expected
        after = await here.figures(target)
        assert after[HIT] - before[HIT] == PREFIX_TOKENS
        assert after[PULLED] == before[PULLED]
        async with here.http.post(f"{here.live.admin_url}/copies", json=order) as answer:
            assert answer.status == 400
            assert "already" in await answer.text()
