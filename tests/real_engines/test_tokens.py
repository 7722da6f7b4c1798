"""The gateway's tokens and salts are the engines': asked of /tokenize, and seen in what is reused."""

import asyncio
from pathlib import Path

import pytest

from tests.real_engines.conftest import Pair
from tests.real_engines.engine import BLOCK_TOKENS
from tests.real_engines.test_hand_off import PAIRS_ONLY, PATIENT_S
from tests.real_engines.world import prompt, world


async def test_engines_tokenise_every_probe_as_we_do(fresh: Pair, tmp_path: Path) -> None:
    async with world(fresh.both, tmp_path, PAIRS_ONLY, heartbeat_s=PATIENT_S) as here:
        async with asyncio.timeout(30.0):
            while not all((asked := here.live.state()["tokens"]["engines"]).get(name) for name in ("p0", "d0")):
                await asyncio.sleep(0.1)
        answers = {found for kinds in asked.values() for found in kinds.values()}
        assert answers == {"equal"}
        assert {kind for kinds in asked.values() for kind in kinds} == {"plain", "chat", "chat_with_tools"}


@pytest.mark.mission("B6")
async def test_a_salt_keeps_prefixes_apart_here_as_there(fresh: Pair, tmp_path: Path) -> None:
    words = prompt(11, 5 * BLOCK_TOKENS + 9)
    async with world(fresh.both, tmp_path, PAIRS_ONLY, heartbeat_s=PATIENT_S) as here:
        for salt in ({"cache_salt": "a"}, {"cache_salt": "a"}, {"cache_salt": "b"}, {}):
            await here.complete(words, 2, **salt)
            await here.until_idle()
            await here.until_quiet("p0")
        seen = [(one.predicted_cached_tokens, one.cached_tokens) for _, one in here.plans()]
        whole = 5 * BLOCK_TOKENS
        assert seen == [(0, 0), (whole, whole), (0, 0), (0, 0)]
