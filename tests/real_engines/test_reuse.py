"""Prefix hits as predicted against the engine's own count, with more alive than fits the prefill engine."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.real_engines.conftest import PREFILL_BLOCKS, Pair
from tests.real_engines.engine import BLOCK_TOKENS
from tests.real_engines.test_hand_off import PAIRS_ONLY
from tests.real_engines.world import limited, prompt, world
from vicinal.domain.reuse import Reuse

DOCUMENTS, DOCUMENT_TOKENS, QUESTION_TOKENS, TURNS = 26, 10 * BLOCK_TOKENS, 40, 5


@pytest.mark.mission("C2", "B12")
async def test_predicted_hits_are_the_engines_hits(
    fresh: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Questions about documents in random order, eight at a time. The documents alone exceed the KV space, so some are
    evicted between a decision and its execution: those are set apart, all others must be as predicted."""
    assert DOCUMENTS * DOCUMENT_TOKENS > PREFILL_BLOCKS * BLOCK_TOKENS
    documents = [prompt(1000 + n, DOCUMENT_TOKENS) for n in range(DOCUMENTS)]
    asked = [(document, turn) for turn in range(TURNS) for document in range(DOCUMENTS)]
    random.Random(0).shuffle(asked)
    async with world(fresh.both, tmp_path, PAIRS_ONLY) as here:
        jobs = [
            here.complete([*documents[document], *prompt(document * 100 + turn, QUESTION_TOKENS)], 2)
            for document, turn in asked
        ]
        await limited(8, jobs)
        await here.until_idle()
        causes = Counter(seen.reuse for _, seen in here.plans())
        with capsys.disabled():
            print(f"\n{len(asked)} requests, causes: {dict(causes)}")
            for first, seen in here.plans():
                if seen.reuse not in (Reuse.EXACT, Reuse.EVICTED_MEANWHILE):
                    print(seen.reuse, seen.predicted_cached_tokens, seen.ready_tokens, seen.cached_tokens, first.at_s)
        assert sum(causes.values()) == len(asked)
        assert causes[Reuse.EXACT] > len(asked) / 4
        assert sum(bool(seen.cached_tokens) for _, seen in here.plans()) > len(asked) / 4, "there was something to hit"
        comparable = len(asked) - causes[Reuse.EVICTED_MEANWHILE]
        assert causes[Reuse.EXACT] >= 0.99 * comparable, causes
        assert (await here.figures("p0"))["prefix_cache_hits_total"] > 0
