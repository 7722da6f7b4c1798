"""Hand-offs between real engines: the text is the same, and the decode side pulls only what it lacks."""

from pathlib import Path

import pytest

from tests.real_engines.conftest import Pair
from tests.real_engines.engine import BLOCK_TOKENS
from tests.real_engines.world import limited, prompt, world
from vicinal.domain.plan import Leg

PAIRS_ONLY = "cost:local=no"
PATIENT_S = 15.0
"""The first hand-off between two engines keeps the prefill engine busy for a while, and it must not count as lost."""

PULLED = "prompt_tokens_by_source_total/external_kv_transfer"
HIT = "prompt_tokens_by_source_total/local_cache_hit"


@pytest.mark.mission("B11", "C4")
async def test_text_of_two_engines_is_the_text_of_one(fresh: Pair, tmp_path: Path) -> None:
    """50 prompts of 100 to 541 tokens. The one engine answers under a salt: it shares no block with the other."""
    async with world(fresh.both, tmp_path, PAIRS_ONLY, heartbeat_s=PATIENT_S) as here:
        prompts = [prompt(seed, 100 + 9 * seed) for seed in range(50)]
        alone = [await here.directly("d0", words, 24, cache_salt="alone") for words in prompts]
        assert len(set(alone)) == 50, "a text that does not depend on its prompt would prove nothing"
        before = await here.figures("d0")
        split = await limited(4, [here.complete(words, 24) for words in prompts])
        await here.until_idle()
        assert split == alone
        assert sum(decision.leg is Leg.DECODE for decision in here.decisions) == 50
        pulled = (await here.figures("d0"))[PULLED] - before[PULLED]
        assert pulled == sum(map(len, prompts))


@pytest.mark.mission("A7")
async def test_the_decode_side_pulls_only_what_it_lacks(fresh: Pair, tmp_path: Path) -> None:
    """A second turn: the decode engine holds what it decoded, the plan knows, and the engine's own counts agree."""
    async with world(fresh.both, tmp_path, PAIRS_ONLY, heartbeat_s=PATIENT_S) as here:
        first = prompt(1, 400)
        await here.complete(first, 2)
        await here.until_idle()
        await here.until_quiet("d0")
        before = await here.figures("d0")
        await here.complete([*first, *prompt(2, 160)], 2)
        await here.until_idle()
        seen = here.observations[-1]
        held = 400 // BLOCK_TOKENS * BLOCK_TOKENS
        after = await here.figures("d0")
        assert after[PULLED] - before[PULLED] == 560 - held == seen.moved_tokens
        assert seen.cached_tokens == seen.predicted_cached_tokens == held, "the prefill engine holds them as well"


async def test_a_chat_with_tools_is_handed_off(fresh: Pair, tmp_path: Path) -> None:
    """Both legs render and tokenise the same body, and so does the gateway: its hashes are the engine's blocks."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    chat = {
        "model": "tiny",
        "messages": [{"role": "system", "content": "Be brief. 请用中文。 " * 20}, {"role": "user", "content": "Why?"}],
        "tools": [tool],
        "tool_choice": "none",
        "max_tokens": 8,
        "temperature": 0,
        "ignore_eos": True,
    }
    async with world(fresh.both, tmp_path, PAIRS_ONLY, heartbeat_s=PATIENT_S) as here:
        for _ in range(2):
            async with here.http.post(f"{here.live.api_url}/chat/completions", json=chat) as answer:
                assert answer.status == 200, await answer.text()
            await here.until_idle()
            await here.until_quiet("p0")
        cold, warm = (seen for _, seen in here.plans())
        assert cold.predicted_cached_tokens == cold.cached_tokens == 0
        assert warm.predicted_cached_tokens == warm.cached_tokens
        assert warm.cached_tokens
