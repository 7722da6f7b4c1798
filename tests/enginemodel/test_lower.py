"""Tiers below HBM: what they hold, what a prompt finds there, and how long it waits for it."""

from array import array
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.tier import Tier
from vicinal.enginemodel.content import Text
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.lower import LowerCache
from vicinal.enginemodel.spec import EngineSpec, LowerTier
from vicinal.enginemodel.work import BlocksEvicted, BlocksSealed, CacheCleared, Finished, Generated, Work

FIT = Fit("unit", 1.0, 0.01, 0.0001, 0.1, 0.02, 0.001, "made up for this test")
BLOCK = 4
HOST_S, SSD_S = 0.25, 2.0
DOCUMENT = 5 * BLOCK
"""A document and one token more: five full blocks that can be reused."""


def engine(blocks: int, host: int, ssd: int = 0, **spec: Any) -> Engine:
    below = [LowerTier(Tier.HOST, host, HOST_S)] + ([LowerTier(Tier.SSD, ssd, SSD_S)] if ssd else [])
    return Engine(EngineSpec(FIT, blocks, BLOCK, below=tuple(below), **spec))


def document(name: int, tokens: int = DOCUMENT + 1) -> bytes:
    return array("I", range(1000 * name, 1000 * name + tokens)).tobytes()


def ask(e: Engine, name: str, about: int, at_s: float, **more: Any) -> None:
    e.submit(Work(name, Text(document(about), array("I", [7]).tobytes()), **more), at_s)


def serve(e: Engine, abouts: list[int], after_s: float = 0.0) -> list[Finished]:
    """Requests about documents, one after the other."""
    lives = []
    for number, about in enumerate(abouts):
        at_s = after_s + 1e4 * (number + 1)
        ask(e, f"w{number}", about, at_s)
        lives += [o for o in e.advance(at_s + 9e3) if isinstance(o, Finished)]
    return lives


def test_what_hbm_evicted_is_read_from_host_before_the_rest_is_computed() -> None:
    e = engine(blocks=6, host=100)
    *_, back = serve(e, [1, 2, 1])
    assert (back.cached_tokens, back.loaded_tokens, back.load_s) == (20, {Tier.HOST: 20}, 5 * HOST_S)
    assert back.finished_s - back.arrived_s == pytest.approx(5 * HOST_S + FIT.prefill_s(21.0, 20.0))
    counters = e.counters
    assert (counters.prefix_hits_tokens, counters.external_hits_tokens) == (0, 20)
    assert (counters.prefix_queries_tokens, counters.external_queries_tokens) == (63, 63)
    assert counters.computed_tokens == 21 + 21 + 1
    assert counters.loaded_tokens == {Tier.HOST: 20}


def test_what_host_evicted_comes_from_ssd_through_host() -> None:
    e = engine(blocks=6, host=6, ssd=100)
    *_, back = serve(e, [1, 2, 1])
    assert back.loaded_tokens == {Tier.SSD: 16, Tier.HOST: 4}, "one block of the first document was left in host"
    assert back.load_s == pytest.approx(4 * SSD_S + 5 * HOST_S)
    again = serve(e, [3, 1], after_s=1e6)[-1]
    assert sum(again.loaded_tokens.values()) == 20


def test_only_what_hbm_lacks_is_loaded() -> None:
    """Of the evicted chain, HBM keeps the prefix longest."""
    e = engine(blocks=9, host=100)
    *_, back = serve(e, [1, 2, 1])
    assert back.cached_tokens == 20
    assert back.loaded_tokens == {Tier.HOST: 20 - e.counters.prefix_hits_tokens}
    assert 0 < e.counters.prefix_hits_tokens < 20


def test_others_compute_while_one_loads_and_the_loaded_goes_before_the_queue() -> None:
    e = engine(blocks=20, host=100, batched_tokens_max=21)
    serve(e, [1, 2, 3, 4, 5])
    ask(e, "loads", 1, 1e5)
    for number in range(3):
        ask(e, f"computes{number}", 6 + number, 1e5)
    done = {o.id: o.finished_s for o in e.advance(2e5) if isinstance(o, Finished)}
    alone_s = FIT.prefill_s(21.0, 0.0)
    assert alone_s < 5 * HOST_S < 2 * alone_s, "loaded while the second computes"
    assert done["computes0"] == pytest.approx(1e5 + alone_s)
    assert done["computes1"] == pytest.approx(1e5 + 2 * alone_s)
    assert done["computes1"] < done["loads"] <= done["computes2"]


def test_a_channel_reads_for_one_prompt_after_the_other() -> None:
    e = engine(blocks=14, host=100)
    serve(e, [1, 2, 3, 4, 5])
    ask(e, "a", 1, 1e6)
    ask(e, "b", 2, 1e6)
    lives = {o.id: o for o in e.advance(2e6) if isinstance(o, Finished)}
    assert lives["a"].load_s == pytest.approx(5 * HOST_S)
    assert lives["b"].load_s == pytest.approx(10 * HOST_S)


def test_a_prompt_that_is_pulled_loads_nothing() -> None:
    e = engine(blocks=6, host=100)
    serve(e, [1, 2])
    ask(e, "d", 1, 1e5, pulls=True)
    e.advance(1e5)
    e.pulled("d", 1e5 + 1)
    (life,) = [o for o in e.advance(2e5) if isinstance(o, Finished)]
    assert (life.cached_tokens, life.pulled_tokens, life.loaded_tokens) == (0, 21, {})


def test_who_is_cancelled_while_loading_leaves_nothing_behind() -> None:
    e = engine(blocks=6, host=100)
    serve(e, [1, 2])
    ask(e, "gone", 1, 1e5)
    e.advance(1e5 + HOST_S)
    assert (e.waiting, e.deferred, e.running) == (1, 1, 0)
    e.cancel("gone", 1e5 + HOST_S)
    assert e.idle
    assert e.memory.pool.used == 0
    assert e.advance(2e5) == []
    assert e.next_event_s() is None


def test_a_reset_clears_hbm_only() -> None:
    e = engine(blocks=50, host=100)
    serve(e, [1])
    assert e.reset_prefix_cache(2e4)
    ask(e, "again", 1, 3e4)
    outputs = e.advance(4e4)
    (life,) = [o for o in outputs if isinstance(o, Finished)]
    assert life.loaded_tokens == {Tier.HOST: 20}
    assert [o.tier for o in outputs if isinstance(o, CacheCleared)] == [Tier.HBM]
    assert isinstance(next(o for o in outputs if not isinstance(o, Generated)), CacheCleared)


class NaiveDocuments:
    """The documents used last, `size` of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: OrderedDict[int, None] = OrderedDict()

    def use(self, name: int) -> bool:
        hit = name in self.held
        self.held[name] = None
        self.held.move_to_end(name)
        if len(self.held) > self.size:
            self.held.popitem(last=False)
        return hit


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=40), st.integers(1, 3), st.integers(0, 3), st.integers(0, 3))
def test_tiers_that_hold_copies_hit_like_one_cache_of_the_size_of_the_largest(
    abouts: list[int], in_hbm: int, more_in_host: int, more_in_ssd: int
) -> None:
    """Write-through keeps tiers inclusive, so LRU of HBM, host and SSD finds what LRU of the SSD alone would find, and
    the tier that a document is found in is the smallest LRU that still has it (the stack property of LRU)."""
    in_host = in_hbm + more_in_host
    in_ssd = in_host + more_in_ssd
    # One block more than documents fill: the last token of a prompt needs a block that nobody can reuse.
    e = engine(blocks=in_hbm * 5 + 1, host=in_host * 5, ssd=in_ssd * 5)
    twins = {None: NaiveDocuments(in_hbm), Tier.HOST: NaiveDocuments(in_host), Tier.SSD: NaiveDocuments(in_ssd)}
    for about, life in zip(abouts, serve(e, abouts), strict=True):
        hits = {tier: twin.use(about) for tier, twin in twins.items()}
        assert life.cached_tokens == (DOCUMENT if any(hits.values()) else 0)
        found = next((tier for tier, hit in hits.items() if hit), None)
        if not hits[None] and found is not None:
            # The last document but so many may be half in HBM still: a new one needs a block more than it seals.
            assert set(life.loaded_tokens) == {found}
            assert life.loaded_tokens[found] <= DOCUMENT
        else:
            assert life.loaded_tokens == {}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_events_say_what_each_tier_holds(data: st.DataObject) -> None:
    e = engine(
        blocks=data.draw(st.integers(8, 20)),
        host=data.draw(st.integers(1, 30)),
        ssd=data.draw(st.integers(0, 30)),
        batched_tokens_max=data.draw(st.sampled_from([5, 64])),
    )
    held: dict[Tier, set[int]] = {tier: set() for tier in (Tier.HBM, Tier.HOST, Tier.SSD)}
    ever: set[int] = set()
    now = 0.0
    for number in range(data.draw(st.integers(1, 12))):
        now += data.draw(st.floats(0, 6))
        tokens = data.draw(st.integers(1, 24))
        content = Text(
            document(data.draw(st.integers(0, 2)), tokens), document(50 + number, data.draw(st.integers(1, 6)))
        )
        e.submit(Work(f"w{number}", content), now)
    for output in e.advance(1e9):
        if isinstance(output, BlocksSealed):
            assert not held[output.tier].intersection(output.keys)
            assert output.parent is None or output.parent in ever, "a consumer must know what a block continues"
            held[output.tier].update(output.keys)
            ever.update(output.keys)
        elif isinstance(output, BlocksEvicted):
            assert held[output.tier].issuperset(output.keys)
            held[output.tier].difference_update(output.keys)
    assert e.memory.lower is not None
    for spec, cache in zip(e.memory.lower.specs, e.memory.lower.caches, strict=True):
        assert len(cache) == len(held[spec.tier]) <= spec.blocks
        assert all(key in cache for key in held[spec.tier])
    assert e.memory.pool.cached == len(held[Tier.HBM])
    assert e.idle
    assert e.memory.pool.used == 0


def test_a_stretch_longer_than_the_tier_leaves_its_end() -> None:
    cache = LowerCache(3)
    assert cache.store([1, 2]) == ([(0, 2)], [])
    assert cache.store([2, 4, 5, 6, 7]) == ([(2, 5)], [1, 2])
    assert len(cache) == 3
    cache.touch([5, 6, 9])
    assert cache.store([8]) == ([(0, 1)], [7])
    assert cache.store([10]) == ([(0, 1)], [6])
