"""The engine model: its seconds are the fit's, its memory is vLLM's, and a late driver changes nothing."""

from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.tier import Tier
from vicinal.enginemodel.content import Text
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.spec import EngineSpec, LowerTier, WorkTooLargeError
from vicinal.enginemodel.work import BlocksEvicted, BlocksSealed, CacheCleared, Finished, Generated, PullWanted, Work

FIT = Fit("unit", 1.0, 0.01, 0.0001, 0.1, 0.02, 0.001, "made up for this test")
BLOCK = 4


def tokens(*values: int) -> bytes:
    return array("I", values).tobytes()


def prompt(count: int, start: int = 0) -> bytes:
    return tokens(*range(start, start + count))


def engine(blocks: int = 1000, **spec: Any) -> Engine:
    return Engine(EngineSpec(FIT, blocks, BLOCK, **spec))


def work(name: str, n: int, out: int = 1, start: int = 0, **more: Any) -> Work:
    return Work(name, Text(prompt(n, start), prompt(out, 5000 + start)), **more)


def run(e: Engine, until_s: float = 1e9) -> dict[str, Finished]:
    return {o.id: o for o in e.advance(until_s) if isinstance(o, Finished)}


@pytest.mark.parametrize("n", [1, 7, 8, 100])
@pytest.mark.parametrize("chunk", [3, 8192])
def test_an_uncontended_prefill_takes_what_the_fit_says_and_one_base_per_step(n: int, chunk: int) -> None:
    e = engine(batched_tokens_max=chunk)
    e.submit(work("a", n), 5.0)
    done = run(e)["a"]
    further_steps = -(-n // chunk) - 1
    assert done.finished_s - 5.0 == pytest.approx(
        FIT.prefill_s(float(n), 0.0) + further_steps * FIT.prefill_base_s, abs=1e-9
    )
    assert done.started_s == done.arrived_s == 5.0


def test_a_cached_prefix_is_not_computed_again() -> None:
    e = engine()
    e.submit(work("a", 40), 0.0)
    run(e, 100.0)
    e.submit(Work("b", Text(prompt(40) + prompt(10, 900), prompt(1))), 100.0)
    done = run(e)["b"]
    assert done.cached_tokens == 40
    assert done.finished_s - 100.0 == pytest.approx(FIT.prefill_s(50.0, 40.0), abs=1e-9)


def test_at_least_the_last_token_is_computed() -> None:
    """A prompt of exactly 10 blocks that are all cached reuses 9 of them."""
    e = engine()
    e.submit(work("a", 40), 0.0)
    e.submit(work("b", 40), 100.0)
    assert run(e)["b"].cached_tokens == 36


def test_decoding_takes_one_growing_step_per_token() -> None:
    e = engine()
    e.submit(work("a", 10, out=6), 0.0)
    done = run(e)["a"]
    steps_s = sum(FIT.step_s(1.0, float(10 + k)) for k in range(1, 6))
    assert done.first_token_s == pytest.approx(FIT.prefill_s(10.0, 0.0))
    assert done.finished_s - done.first_token_s == pytest.approx(steps_s, abs=1e-9)


def test_a_mixed_step_adds_the_decodes_without_their_base() -> None:
    e = engine()
    e.submit(work("a", 10, out=50), 0.0)
    started_s = FIT.prefill_s(10.0, 0.0)
    e.submit(work("b", 20, start=100), started_s + 1e-6)
    first_step_s = FIT.step_s(1.0, 11.0)
    mixed_s = FIT.prefill_s(20.0, 0.0) + FIT.step_s_per_sequence + FIT.step_s_per_context_token * 12
    done = run(e)["b"]
    assert done.started_s == pytest.approx(started_s + first_step_s)
    assert done.finished_s == pytest.approx(started_s + first_step_s + mixed_s)


def test_the_queue_is_first_come_first_served_within_the_token_budget() -> None:
    e = engine(batched_tokens_max=10)
    e.submit(work("a", 15), 0.0)
    e.submit(work("b", 10, start=100), 0.0)
    done = run(e)
    a_s, b_s = FIT.prefill_s(15.0, 0.0), FIT.prefill_s(10.0, 0.0)
    # a's second chunk leaves 5 tokens of the budget to b's first; both end with the step that has their last chunk.
    # There are three steps with a base each; the second serves both.
    b_first_s = 0.01 * 5 + 0.0001 * 25 / 2
    assert done["a"].finished_s == pytest.approx(a_s + FIT.prefill_base_s + b_first_s)
    assert done["b"].finished_s == pytest.approx(a_s + b_s + FIT.prefill_base_s)


def test_with_async_scheduling_a_newcomer_sits_out_the_step_that_is_decided_on_already() -> None:
    """b comes during a step of a's: it is admitted when that ends, and computed in the step after the next."""
    starts_s, ends_s = [], []
    for early in (False, True):
        e = engine(async_scheduling=early)
        e.submit(work("a", 10, out=50), 0.0)
        step_began_s = FIT.prefill_s(10.0, 0.0)
        e.submit(work("b", 20, start=100), step_began_s + 1e-6)
        done = run(e)["b"]
        starts_s.append(done.started_s)
        ends_s.append(done.finished_s)
    assert starts_s[0] == starts_s[1] == pytest.approx(step_began_s + FIT.step_s(1.0, 11.0))
    grown_s = FIT.step_s_per_context_token
    assert ends_s[1] - ends_s[0] == pytest.approx(FIT.step_s(1.0, 12.0) + grown_s)


def test_with_async_scheduling_an_idle_engine_begins_at_once() -> None:
    e = engine(async_scheduling=True)
    e.submit(work("a", 10, out=3), 2.0)
    done = run(e)["a"]
    assert done.started_s == 2.0
    assert done.first_token_s - 2.0 == pytest.approx(FIT.prefill_s(10.0, 0.0))
    assert done.finished_s - done.first_token_s == pytest.approx(FIT.step_s(1.0, 11.0) + FIT.step_s(1.0, 12.0))


def test_with_async_scheduling_a_freed_place_is_taken_one_step_later() -> None:
    """a's last step ends at t; b is admitted then and computed after c's next step. The budget counts c's token."""
    e = engine(sequences_max=2, batched_tokens_max=8, async_scheduling=True)
    e.submit(work("a", 4, out=3), 0.0)
    e.submit(work("c", 4, out=40, start=50), 0.0)
    e.submit(work("b", 7, start=100), 0.0)
    done = run(e)
    assert done["b"].started_s == done["a"].finished_s
    # c came during a's prefill, so its own was in a's last step, and it has one token by then.
    one_step_s = FIT.step_s(1.0, 5.0)
    mixed_s = FIT.prefill_s(7.0, 0.0) + FIT.step_s_per_sequence + FIT.step_s_per_context_token * 6
    assert done["b"].finished_s - done["a"].finished_s == pytest.approx(one_step_s + mixed_s)


def test_a_hand_off_holds_blocks_until_they_are_pulled() -> None:
    p = engine(lease_s=5.0)
    p.submit(work("a", 10, hold=True), 0.0)
    done = run(p, 2.0)["a"]
    assert done.held_blocks is not None
    assert len(done.held_blocks) == 3
    assert p.memory.pool.used == 3
    hold = p.claim("a", 2.5)
    assert hold is not None
    assert hold.content == Text(prompt(10), prompt(1, 5000))
    assert p.claim("a", 2.6) is None
    p.advance(100.0)
    assert p.memory.pool.used == 3
    p.release("a", 101.0)
    assert p.memory.pool.used == 0
    assert p.idle


def test_an_unclaimed_lease_runs_out() -> None:
    p = engine(lease_s=5.0)
    p.submit(work("a", 10, hold=True), 0.0)
    done = run(p, 2.0)["a"]
    assert p.next_event_s() == p.next_milestone_s() == done.finished_s + 5.0
    p.advance(done.finished_s + 5.0)
    assert p.memory.pool.used == 0
    assert p.counters.leases_expired == 1
    assert p.claim("a", 50.0) is None


def test_a_decode_leg_waits_for_its_transfer_and_pulls_only_what_it_lacks() -> None:
    d = engine()
    d.submit(work("warm", 9), 0.0)
    d.advance(50.0)
    d.submit(work("a", 10, out=3, pulls=True), 50.0)
    (wanted,) = (o for o in d.advance(50.0) if isinstance(o, PullWanted))
    assert (wanted.tokens, wanted.blocks, wanted.at_s) == (2, 1, 50.0)
    assert d.next_event_s() is None
    assert d.waiting == d.deferred == 1
    d.pulled("a", 57.0)
    outputs = d.advance(1e9)
    done = next(o for o in outputs if isinstance(o, Finished))
    assert done.first_token_s == pytest.approx(57.0 + FIT.step_s(1.0, 10.0))
    assert done.finished_s == pytest.approx(57.0 + sum(FIT.step_s(1.0, 10.0 + k) for k in range(3)))
    assert (done.cached_tokens, done.pulled_tokens) == (8, 2)
    assert d.counters.computed_tokens == 9


def test_pulled_blocks_can_be_reused_by_the_next_request() -> None:
    d = engine()
    d.submit(work("a", 12, pulls=True), 0.0)
    d.pulled("a", 1.0)
    d.advance(50.0)
    d.submit(Work("b", Text(prompt(12) + prompt(4, 700), prompt(1))), 50.0)
    assert run(d)["b"].cached_tokens == 12


def test_blocks_of_generated_tokens_are_cached_too() -> None:
    """After 10 + 7 tokens the newest token has no KV yet: 16 tokens are four full blocks."""
    e = engine()
    e.submit(work("a", 10, out=7), 0.0)
    e.advance(50.0)
    answer = prompt(7, 5000)
    e.submit(Work("b", Text(prompt(10) + answer + prompt(5, 800), prompt(1))), 50.0)
    assert run(e)["b"].cached_tokens == 16


def test_changes_of_the_cache_carry_tokens_parent_and_salt() -> None:
    e = engine(blocks=4)
    e.submit(Work("a", Text(prompt(6), prompt(4, 50), b"tenant")), 0.0)
    sealed = [o for o in e.advance(50.0) if isinstance(o, BlocksSealed)]
    assert [s.tokens for s in sealed] == [prompt(4), prompt(2, 4) + prompt(2, 50)]
    assert sealed[0].parent is None
    assert sealed[1].parent == sealed[0].keys[0]
    assert sealed[0].salt == b"tenant"
    e.submit(work("b", 14, start=300), 50.0)
    evicted = [o for o in e.advance(60.0) if isinstance(o, BlocksEvicted)]
    assert [o.keys for o in evicted] == [sealed[1].keys + sealed[0].keys]


def test_a_reset_is_told_with_the_next_step() -> None:
    e = engine()
    e.submit(work("a", 8), 0.0)
    assert not e.reset_prefix_cache(0.5)
    e.advance(10.0)
    assert e.reset_prefix_cache(10.0)
    assert e.advance(20.0) == []
    e.submit(work("b", 8), 20.0)
    outputs = [o for o in e.advance(30.0) if isinstance(o, CacheCleared | BlocksSealed)]
    assert [type(o) for o in outputs] == [CacheCleared, BlocksSealed]


def test_when_blocks_run_out_the_youngest_is_preempted_and_recomputes() -> None:
    e = engine(blocks=5)
    e.submit(work("old", 7, out=9), 0.0)
    e.submit(work("young", 7, out=4, start=100), 0.0)
    outputs = e.advance(1e9)
    done = {o.id: o for o in outputs if isinstance(o, Finished)}
    assert e.counters.preemptions == done["young"].preemptions == 1
    assert done["old"].preemptions == 0
    assert done["young"].output_tokens == 4
    assert done["young"].finished_s > done["old"].finished_s
    assert e.memory.pool.used == 0
    said = [(o.first, o.count) for o in outputs if isinstance(o, Generated) and o.id == "young"]
    assert sum(count for _, count in said) == 4
    assert [first for first, _ in said] == sorted({first for first, _ in said})


def test_a_request_waits_until_its_blocks_fit() -> None:
    e = engine(blocks=4)
    e.submit(work("a", 11, out=2), 0.0)
    e.submit(work("b", 11, start=100), 0.1)
    done = run(e)
    assert done["b"].started_s == done["a"].finished_s


def test_cancelling_frees_blocks_in_every_phase() -> None:
    e = engine(blocks=10, batched_tokens_max=8)
    e.submit(work("decoding", 4, out=9), 0.0)
    e.advance(FIT.prefill_s(4.0, 0.0))
    e.submit(work("prefilling", 12, start=100), 1.5)
    e.submit(work("pulling", 8, start=200, pulls=True), 1.6)
    e.submit(work("waiting", 30, start=300), 1.7)
    e.advance(2.7)
    assert (e.running, e.waiting, e.deferred) == (2, 2, 1)
    for name in ("pulling", "waiting", "prefilling", "decoding", "unknown"):
        e.cancel(name, 2.71)
    assert e.idle
    assert e.memory.pool.used == 0
    assert run(e) == {}
    assert e.next_event_s() is None


def test_refusals() -> None:
    e = engine(blocks=2)
    with pytest.raises(WorkTooLargeError):
        e.submit(work("a", 8), 0.0)
    with pytest.raises(ValueError, match="at least one"):
        e.submit(Work("a", Text(b"", prompt(1))), 0.0)
    e.submit(work("a", 4), 0.0)
    with pytest.raises(ValueError, match="already"):
        e.submit(work("a", 4), 0.0)
    with pytest.raises(ValueError, match="not pulling"):
        e.pulled("a", 0.0)


def test_a_milestone_is_the_next_first_or_last_token() -> None:
    e = engine()
    e.submit(work("a", 10, out=6), 0.0)
    first_s = FIT.prefill_s(10.0, 0.0)
    assert e.next_milestone_s() == e.next_event_s() == pytest.approx(first_s)
    e.advance(first_s)
    assert e.next_event_s() == pytest.approx(first_s + FIT.step_s(1.0, 11.0))
    assert e.next_milestone_s() == pytest.approx(first_s + sum(FIT.step_s(1.0, 10.0 + k) for k in range(1, 6)))


LEASE_S = 3.0123456789
"""No multiple of any step: which of two things at one instant comes first is a matter of rounding."""

WORKS = st.lists(
    st.tuples(
        st.integers(1, 30), st.integers(1, 20), st.integers(0, 2), st.floats(0, 12), st.booleans(), st.booleans()
    ),
    min_size=1,
    max_size=8,
)


BELOW = ((), (LowerTier(Tier.HOST, 30, 0.0712345),), (LowerTier(Tier.HOST, 9, 0.0312345), LowerTier(Tier.SSD, 40, 0.3)))


@settings(max_examples=150, deadline=None)
@given(
    WORKS, st.integers(14, 40), st.sampled_from([5, 16, 8192]), st.integers(2, 8), st.booleans(), st.sampled_from(BELOW)
)
def test_leaping_changes_no_stamp(
    works: list[Any], blocks: int, chunk: int, sequences: int, early: bool, below: tuple[LowerTier, ...]
) -> None:
    """A driver that looks at every event and one that only brings news see the same lives, and nothing leaks."""
    works = sorted(works, key=lambda w: w[3])
    lives: list[dict[str, Finished]] = []
    for eager in (True, False):
        e = engine(
            blocks=blocks,
            batched_tokens_max=chunk,
            sequences_max=sequences,
            lease_s=LEASE_S,
            async_scheduling=early,
            below=below,
        )
        seen: list[Any] = []

        def look(now: float, e: Engine = e, seen: list[Any] = seen) -> None:
            out = e.advance(now)
            seen.extend(out)
            for wanted in [o for o in out if isinstance(o, PullWanted)]:
                e.pulled(wanted.id, now)

        for i, (n, out, family, at_s, hold, pulls) in enumerate(works):
            while eager and (event_s := e.next_event_s()) is not None and event_s <= at_s:
                look(event_s)
            # Only the first one may pull: its transfer begins at once, whenever the driver looks. Answers differ.
            leg = Work(
                f"w{i}", Text(prompt(n, family * 1000), prompt(out, 5000 + 100 * i)), hold=hold, pulls=pulls and not i
            )
            e.submit(leg, at_s)
            look(at_s)
            assert e.memory.pool.used <= blocks
        while (event_s := e.next_event_s()) is not None:
            look(event_s if eager else event_s + 50.0)
        assert e.idle
        assert e.memory.pool.used == 0
        lives.append({o.id: o for o in seen if isinstance(o, Finished)})
        for i, (_, out, *_rest) in enumerate(works):
            parts = [(o.first, o.count) for o in seen if isinstance(o, Generated) and o.id == f"w{i}"]
            covered = [k for first, count in parts for k in range(first, first + count)]
            assert covered == list(range(out))
    assert lives[0].keys() == lives[1].keys() == {f"w{i}" for i in range(len(works))}
    for name, life in lives[0].items():
        other = lives[1][name]
        assert life.first_token_s == pytest.approx(other.first_token_s, abs=1e-6)
        assert life.finished_s == pytest.approx(other.finished_s, abs=1e-6)
        assert (life.cached_tokens, life.preemptions) == (other.cached_tokens, other.preemptions)
        assert life.loaded_tokens == other.loaded_tokens
