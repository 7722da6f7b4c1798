"""Engines that offload KV: what they publish, count and answer about blocks below HBM."""

from typing import Any

import pytest

from tests.emulator.conftest import MakeRig
from tests.emulator.test_events import context, receive, subscribe
from tests.emulator.test_metrics import scrape

__all__ = ["context"]

FIRST, SECOND = list(range(5, 405)), list(range(405, 805))
BLOCKS = 24
"""Full blocks of such a prompt that can be reused: the last token is always computed."""


async def cached(rig: Any, prompt: list[int], name: str = "d1") -> int:
    answer = await rig.complete(name, prompt, 1)
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.fixture
async def tiered(make_rig: MakeRig) -> Any:
    """HBM for one prompt, host memory for several."""
    return await make_rig(kv_blocks=30, host_blocks=200)


async def test_what_was_offloaded_counts_as_cached_and_as_external(tiered: Any) -> None:
    assert await cached(tiered, FIRST) == 0
    assert await cached(tiered, SECOND) == 0
    assert await cached(tiered, FIRST) == BLOCKS * 16
    stamp = (await tiered.stamps("d1"))[-1]
    in_hbm = stamp["cached_tokens"] - stamp["loaded_tokens"]["host"]
    assert 0 <= in_hbm < 8 * 16
    values = {
        (sample.name, sample.labels.get("source")): sample.value
        for family in (await scrape(tiered, "d1")).values()
        for sample in family.samples
    }
    assert values["vllm:prefix_cache_queries_total", None] == 1200
    assert values["vllm:prefix_cache_hits_total", None] == in_hbm
    assert values["vllm:external_prefix_cache_queries_total", None] == 1200 - in_hbm
    assert values["vllm:external_prefix_cache_hits_total", None] == BLOCKS * 16 - in_hbm
    sources = [
        values["vllm:prompt_tokens_by_source_total", source]
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
    ]
    assert sources == [816, in_hbm, BLOCKS * 16 - in_hbm]
    figures = (await tiered.summary())["engines"]["d1"]
    assert figures["loaded_tokens"] == {"host": BLOCKS * 16 - in_hbm}
    assert figures["pulled_tokens"] == 0


async def test_each_tier_has_its_medium(make_rig: MakeRig, context: Any) -> None:
    rig = await make_rig(kv_blocks=30, host_blocks=30, ssd_blocks=200)
    socket = await subscribe(rig, context, "d1")
    await rig.complete("d1", FIRST, 1)
    events = (await receive(socket))[1]
    stored = {event["medium"]: event for event in events if event["type"] == "BlockStored"}
    assert list(stored) == ["GPU", "CPU", "STORAGE"]
    assert [event["extra_keys"] for event in stored.values()] == [[None] * 25, None, None]
    same = [{**event, "medium": None, "extra_keys": None} for event in stored.values()]
    assert same[0] == same[1] == same[2]
    assert len(same[0]["token_ids"]) == 400
    await rig.complete("d1", SECOND, 1)
    removed: set[str] = set()
    while removed != {"GPU", "CPU"}:  # HBM makes room when the prompt is admitted, host memory when it is computed
        removed |= {event["medium"] for event in (await receive(socket))[1] if event["type"] == "BlockRemoved"}


async def test_a_reset_leaves_what_was_offloaded(tiered: Any) -> None:
    await cached(tiered, FIRST)
    assert (await tiered.post("d1", "/reset_prefix_cache", {}))[1] == {"success": True}
    assert await cached(tiered, FIRST) == BLOCKS * 16
    assert (await tiered.stamps("d1"))[-1]["loaded_tokens"] == {"host": BLOCKS * 16}


async def test_a_prefill_leg_says_what_it_had_whatever_the_tier(tiered: Any) -> None:
    await tiered.prefill("p", FIRST)
    params = await tiered.prefill("p", SECOND)
    await tiered.complete("d1", SECOND, 2, kv_transfer_params=params)
    again = await tiered.prefill("p", FIRST)
    assert again["remote_prefill_cached_tokens"] == BLOCKS * 16
