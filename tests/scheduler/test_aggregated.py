"""Engines that hand nothing off serve whole requests only; a scheduler that does not explain decides the same."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import endpoint, limited, racks, request, tokens
from tests.policies.tables import engines
from tests.scheduler.play import Play, every, idle, only
from vicinal.domain.effects import Dispatch, Record
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.plan import Leg
from vicinal.policies.registry import POLICIES
from vicinal.scheduler.settings import SchedulerSettings

PROMPT = tokens(8_192, 4)


@pytest.mark.mission("B2")
@pytest.mark.parametrize("local", [False, True])
def test_whole_requests_only(local: bool) -> None:
    play = Play(engines(4), local=local)
    for n in range(6):
        sent = only(Dispatch, play.arrive(request(f"q{n}", 4096, streamed=True), 0.1))
        assert sent.leg is Leg.WHOLE
        assert sent.plan.local
    for n in range(6):
        play.first_token(f"q{n}", 0.1)
        play.finished(f"q{n}", 0.1)
    assert idle(play)


@pytest.mark.mission("B2")
def test_beside_pairs_they_are_in_no_pair() -> None:
    """With a prefill, a decode and two engines that hand nothing off there is one pair, and no other is offered."""
    fleet = [endpoint("p", Role.PREFILL), *engines(2), endpoint("d", Role.DECODE)]
    play = Play(fleet, local=True)
    decision = only(Record, play.arrive(request("q"))).decision
    assert decision.pairs_considered == 1 + 3
    rows = [decision.chosen, *decision.others, *(row for _, row in decision.counterfactuals)]
    assert {(row.plan.prefill, row.plan.decode) for row in rows} == {("p", "d"), ("e1", "e1"), ("e2", "e2"), ("d", "d")}


def test_a_decode_after_a_hand_off_is_never_one_of_them() -> None:
    fleet = [endpoint("p", Role.PREFILL), *engines(3), endpoint("d", Role.DECODE)]
    for seed in range(5):
        play = Play(fleet, policy_name="least_loaded", seed=seed)
        assert only(Dispatch, play.arrive(request("q"))).leg is Leg.PREFILL
        assert only(Dispatch, play.prefilled("q", 0.5)).endpoint == "d"


@pytest.mark.mission("C3")
def test_the_named_alternatives_are_local_plans() -> None:
    play = Play(engines(4))
    prompt = tokens(4096, 9)
    play.arrive(request("load", 8_192))
    loaded = play.scheduler.requests["load"].plan.decode
    holder = next(e.id for e in play.scheduler.state.fleet.endpoints if e.id != loaded)
    play.stored(holder, prompt[:2048])
    decision = only(Record, play.arrive(request("q", prompt))).decision
    rows = dict(decision.counterfactuals)
    assert list(rows) == ["emptiest_gpu", "best_cached", "best_hit", "best_recompute", "local"]
    assert all(row.plan.local for row in rows.values())
    assert rows["emptiest_gpu"].plan.decode != loaded
    assert rows["best_cached"].plan.decode == rows["best_hit"].plan.decode == holder
    assert rows["best_recompute"].plan.cached_tokens == 0
    assert rows["local"].total == min(row.total for row in rows.values())
    assert len(decision.others) == 3
    assert decision.pairs_considered == 4


@pytest.mark.mission("C6")
def test_waiting_makes_prefill_dearer_without_a_prefill_pool_too() -> None:
    play = Play(engines(2), settings=limited(1e9))
    prices = [
        only(Record, play.arrive(request(f"q{n}", 16_000), 0.01)).decision.prefill_price_s_per_s for n in range(8)
    ]
    assert prices[0] == 0.0
    assert sorted(set(prices)) == prices


MIXED = [*racks(2, 1, 2), endpoint("both", Role.BOTH, "r1"), *engines(2)]
FLEETS = {"pairs": racks(2, 2, 2), "engines": engines(5, leaves=2), "mixed": MIXED}


def tale(play: Play, seed: int, fleet: list[Endpoint]) -> list[tuple[str, ...]]:
    """What is sent where, in a random walk of arrivals, hand-offs, ends, failures, reports and stored blocks."""
    rng = np.random.default_rng(seed)
    sent: list[tuple[str, ...]] = []
    for n in range(40):
        what = rng.random()
        live = sorted(play.scheduler.requests)
        effects = []
        if what < 0.5 or not live:
            length = 512 * int(rng.integers(1, 17))
            wanted = request(f"q{n}", PROMPT[:length], splittable=bool(rng.random() < 0.8), streamed=True)
            effects = play.arrive(wanted, float(rng.exponential(0.05)))
        else:
            name = live[int(rng.integers(len(live)))]
            leg = play.scheduler.requests[name].leg
            if what < 0.7 and leg is Leg.PREFILL:
                effects = play.prefilled(name, 0.05)
            elif what < 0.8 and leg is not None:
                effects = play.failed(name, leg)
                for one in fleet:
                    effects += play.reported(one.id)
            elif what < 0.9 and leg is not Leg.PREFILL:
                effects = play.finished(name, 0.05)
            else:
                one = fleet[int(rng.integers(len(fleet)))]
                effects = play.stored(one.id, PROMPT[:4096])
        sent += [(e.request_id, str(e.attempt), e.leg, e.plan.prefill, e.plan.decode) for e in every(Dispatch, effects)]
    sent.append((str(play.scheduler._chance.random()),))
    return sent


@pytest.mark.parametrize("policy_name", sorted(POLICIES))
@pytest.mark.parametrize("kind", FLEETS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_explaining_changes_no_decision(policy_name: str, kind: str, seed: int) -> None:
    """Nor the stream of chance: after the walk both draw the same number."""
    fleet = FLEETS[kind]
    walks = [
        tale(
            Play(fleet, local=True, settings=SchedulerSettings(explain=explain), policy_name=policy_name, seed=seed),
            seed,
            fleet,
        )
        for explain in (True, False)
    ]
    assert walks[0] == walks[1]
    assert len(walks[0]) > 10


@pytest.mark.parametrize("kind", FLEETS)
def test_without_explaining_the_chosen_row_is_all_there_is(kind: str) -> None:
    """And it is the same row, term by term."""
    said = []
    for explain in (True, False):
        play = Play(FLEETS[kind], local=True, settings=SchedulerSettings(explain=explain))
        play.arrive(request("load", 8_192))
        effects = play.arrive(request("q"))
        if only(Dispatch, effects).leg is Leg.PREFILL:
            effects += play.prefilled("q", 0.5)
        said.append([e.decision for e in every(Record, effects)])
    for full, short in zip(*said, strict=True):
        assert short.chosen == full.chosen
        assert short.reason == full.reason
        assert (short.others, short.counterfactuals, short.verdicts, short.inputs) == ((), (), (), ())
        assert (short.pairs_considered, short.cache_state, short.coarse_hashes) == (None, None, ())


def test_a_large_fleet_decides_the_same_too() -> None:
    """Past the size up to which every pair is priced (cost/table.py)."""
    fleet = racks(10, 7, 7)
    walks = [
        tale(Play(fleet, local=True, settings=SchedulerSettings(explain=explain), seed=3), 3, fleet)
        for explain in (True, False)
    ]
    assert walks[0] == walks[1]


def test_a_fleet_may_turn_into_engines_that_hand_nothing_off() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("q"))
    play.fleet([replace(one, role=Role.BOTH, hands_off=False) for one in racks(1, 1, 1)])
    for one in racks(1, 1, 1):
        play.reported(one.id)
    assert only(Dispatch, play.arrive(request("r"))).leg is Leg.WHOLE
