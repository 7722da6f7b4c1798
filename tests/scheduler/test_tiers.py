"""Copies below HBM: they are found, priced by their tier, said in the record, and checked when the engine answers."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from tests.builders import racks, request, tokens
from tests.scheduler.play import Play, only
from vicinal.domain.decision import TERMS, Decision
from vicinal.domain.effects import Record, RecordObservation
from vicinal.domain.endpoint import Role
from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Action
from vicinal.domain.reuse import Reuse
from vicinal.domain.tier import Tier
from vicinal.observe.encode import encode_decision
from vicinal.observe.explain import reason_sentence
from vicinal.observe.lines import DecisionRecord

P1, P2 = EndpointId("r1-p1"), EndpointId("r1-p2")
PROMPT = tokens(8000, 1)
NAMES = tuple(range(1000, 1500))
REUSABLE = 7984
"""All but the last block, which the engine computes."""

pytestmark = pytest.mark.mission("B1", "B9", "B16")


def stored(play: Play, endpoint: EndpointId, tier: Tier, blocks: int = 500) -> None:
    ids = np.asarray(PROMPT[: blocks * 16], dtype="<u4").tobytes()
    play.feed(BlocksStored(endpoint, 0, 0, None, NAMES[:blocks], ids, 16, tier=tier))


def decide(play: Play, name: str = "a") -> Decision:
    return only(Record, play.arrive(request(name, PROMPT))).decision


def term(decision: Decision, name: str) -> float | None:
    return decision.chosen.terms[TERMS.index(name)]


def test_the_plan_goes_to_the_copy_in_host_memory_and_says_so() -> None:
    play = Play(racks(1, 2, 1))
    stored(play, P2, Tier.HOST)
    decision = decide(play)
    plan = decision.chosen.plan
    assert (plan.prefill, plan.action) == (P2, Action.HIT)
    assert (plan.cached_tokens, plan.from_host_tokens, plan.from_ssd_tokens) == (REUSABLE, REUSABLE, 0)
    assert term(decision, "fetch_kv") == pytest.approx(REUSABLE * 327_680 / 55e9)
    assert (decision.cache_location, decision.cache_state) == (P2, "host")
    recomputing = next(row for row in decision.others if row.plan.prefill == P1)
    assert recomputing.plan.loaded_tokens == 0
    assert recomputing.terms[TERMS.index("fetch_kv")] is None
    line = encode_decision(decision)
    assert line.endswith(b"]}\n"), "the coarse hashes come last"
    record = msgspec.json.decode(line, type=DecisionRecord)
    assert record.predicted_loaded_tokens == {"host": REUSABLE}
    assert record.estimated_cache_cost == pytest.approx(term(decision, "fetch_kv"), rel=1e-5)
    assert "r1-p2→r1-d1 (hit, loading 7,984 tokens of KV from host)" in reason_sentence(record)


def test_the_nearest_tier_wins() -> None:
    play = Play(racks(1, 3, 1))
    stored(play, EndpointId("r1-p1"), Tier.SSD)
    stored(play, EndpointId("r1-p2"), Tier.HOST)
    stored(play, EndpointId("r1-p3"), Tier.HBM)
    rows = {}
    decision = decide(play)
    for row in (decision.chosen, *decision.others):
        rows[row.plan.prefill] = row
    by_total = sorted(rows, key=lambda name: rows[name].total)
    assert by_total == ["r1-p3", "r1-p2", "r1-p1"]
    assert rows[P1].plan.from_ssd_tokens == REUSABLE
    assert rows[P1].terms[TERMS.index("fetch_kv")] == pytest.approx(REUSABLE * 327_680 * (1 / 55e9 + 1 / 7e9))
    assert decision.cache_state == "ready"


def test_a_copy_that_is_read_slower_than_it_is_computed_is_avoided() -> None:
    """An engine loads what it finds, so the scheduler takes the endpoint that has nothing."""
    play = Play(racks(1, 2, 1, host_bytes_per_s=2e9))
    stored(play, P2, Tier.HOST)
    plan = decide(play).chosen.plan
    assert (plan.prefill, plan.cached_tokens) == (P1, 0)


def test_a_prefix_in_hbm_and_the_rest_below() -> None:
    play = Play(racks(1, 1, 1))
    stored(play, P1, Tier.HBM, 100)
    stored(play, P1, Tier.HOST, 300)
    stored(play, P1, Tier.SSD, 450)
    decision = decide(play)
    plan = decision.chosen.plan
    assert (plan.cached_tokens, plan.from_host_tokens, plan.from_ssd_tokens) == (7200, 3200, 2400)
    assert decision.cache_state == "ssd"


def test_a_decode_endpoint_pulls_what_it_has_in_host_memory_too() -> None:
    play = Play(racks(1, 1, 1))
    stored(play, EndpointId("r1-d1"), Tier.HOST)
    plan = decide(play).chosen.plan
    assert (plan.held_tokens, plan.moved_tokens, plan.loaded_tokens) == (0, 8000, 0)


def test_an_endpoint_that_does_both_loads_its_own() -> None:
    play = Play([replace(e, role=Role.BOTH, hands_off=False) for e in racks(1, 2, 0)])
    stored(play, P2, Tier.HOST)
    decision = decide(play)
    assert decision.chosen.plan.local
    assert (decision.chosen.plan.prefill, decision.chosen.plan.from_host_tokens) == (P2, REUSABLE)
    assert term(decision, "ttft") == pytest.approx(
        sum(term(decision, name) or 0.0 for name in ("wait_prefill", "fetch_kv", "compute_prefill"))
    )
    assert dict(decision.counterfactuals)["best_cached"].plan.prefill == P2


def test_what_was_loaded_as_predicted_is_exact_and_its_seconds_are_the_prefill_s() -> None:
    play = Play(racks(1, 1, 1))
    stored(play, P1, Tier.HOST)
    decision = decide(play)
    predicted_s = sum(term(decision, name) or 0.0 for name in ("wait_prefill", "fetch_kv", "compute_prefill"))
    play.prefilled("a", predicted_s, cached=REUSABLE)
    play.first_token("a", 0.1)
    seen = only(RecordObservation, play.finished("a", 0.1)).observation
    assert seen.reuse is Reuse.EXACT
    assert seen.ready_tokens == seen.predicted_cached_tokens == REUSABLE
    assert seen.predicted_prefill_s == pytest.approx(predicted_s)
    assert seen.prefill_s == pytest.approx(predicted_s)


def test_what_left_host_memory_or_the_engine_is_not_counted_on() -> None:
    play = Play(racks(1, 1, 1))
    stored(play, P1, Tier.HOST)
    play.feed(BlocksRemoved(P1, 0, 0, NAMES[100:101], Tier.HOST))
    assert decide(play, "a").chosen.plan.from_host_tokens == 1600
    play = Play(racks(1, 1, 1))
    stored(play, P1, Tier.HBM)
    stored(play, P1, Tier.HOST)
    play.feed(BlocksCleared(P1, 0, 0, "reset"))
    assert decide(play, "a").chosen.plan.from_host_tokens == REUSABLE, "a reset is of HBM"
    play = Play(racks(1, 1, 1))
    stored(play, P1, Tier.HOST)
    play.feed(BlocksCleared(P1, 1, 0, "restart"))
    assert decide(play, "a").chosen.plan.cached_tokens == 0
