"""What planned requests will make counts at once, so that siblings follow each other instead of scattering (B14)."""

import numpy as np
import pytest

from tests.builders import racks, request, tokens
from tests.scheduler.play import Play, idle, only
from vicinal.domain.effects import Dispatch, Record
from vicinal.domain.plan import Action, Leg

SHARED = tokens(16_384, 11)


def sibling(play: Play, name: str, own: int, after_s: float = 0.0) -> tuple[str, Action, str]:
    """Where a request with the shared prefix goes, what it does there, and what is said of the cache there."""
    prompt = np.concatenate((SHARED, tokens(512, own)))
    decision = only(Record, play.arrive(request(name, prompt), after_s)).decision
    return decision.chosen.plan.prefill, decision.chosen.plan.action, decision.cache_state


@pytest.mark.mission("B14")
@pytest.mark.parametrize("policy_name", ["prefill_first", "affinity"])
def test_a_sibling_sent_right_after_sees_the_blocks_that_the_first_will_make(policy_name: str) -> None:
    for seed in range(6):
        play = Play(racks(1, 4, 4), seed=seed, policy_name=policy_name)
        first, action, cache = sibling(play, "first", 1)
        assert (action, cache) == (Action.RECOMPUTE, "absent")
        for n in range(3):
            assert sibling(play, f"next-{n}", n + 2) == (first, Action.HIT, "filling")


@pytest.mark.mission("B14")
def test_by_cost_a_sibling_follows_as_soon_as_waiting_is_shorter_than_computing() -> None:
    """The first computes for 0.77 s. Who comes when half is done waits for the rest; an idle endpoint is slower."""
    for seed in range(6):
        play = Play(racks(1, 4, 4), seed=seed)
        first, _, _ = sibling(play, "first", 1)
        assert sibling(play, "second", 2, 0.4) == (first, Action.HIT, "filling")


@pytest.mark.mission("B14")
def test_the_engines_word_turns_filling_into_ready() -> None:
    play = Play(racks(1, 4, 4))
    first, _, _ = sibling(play, "first", 1)
    play.stored(first, SHARED)
    play.gone("first")
    assert sibling(play, "second", 2) == (first, Action.HIT, "ready")


@pytest.mark.mission("B14")
@pytest.mark.parametrize("stored", [False, True])
def test_a_first_that_fails_leaves_what_the_engine_said_and_no_more(stored: bool) -> None:
    play = Play(racks(1, 4, 4))
    first, _, _ = sibling(play, "first", 1)
    if stored:
        play.stored(first, SHARED)
    play.failed("first", Leg.PREFILL)
    play.gone("first")
    play.reported(first)
    goes, action, cache = sibling(play, "second", 2)
    assert (action, cache) == ((Action.HIT, "ready") if stored else (Action.RECOMPUTE, "absent"))
    if stored:
        assert goes == first


def test_expectations_of_siblings_are_counted_one_by_one() -> None:
    play = Play(racks(1, 1, 1))
    for name in ("a", "b"):
        play.arrive(request(name, SHARED))
    index = play.scheduler.state.index
    asked = request("other", SHARED).block_hashes
    play.gone("a")
    assert index.match(asked, 2).expected[0] == 1024
    play.gone("b")
    assert index.match(asked, 2).expected[0] == 0
    assert idle(play)


def test_the_decode_endpoint_is_expected_to_hold_the_prompt_once_it_is_bound() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a", SHARED))
    index, asked = play.scheduler.state.index, request("other", SHARED).block_hashes
    assert index.match(asked, 2).expected.tolist() == [1024, 0]
    assert only(Dispatch, play.prefilled("a", 0.5)).endpoint == "r1-d1"
    assert index.match(asked, 2).expected.tolist() == [1024, 1024]
