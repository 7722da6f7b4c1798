"""What holds for each policy: it takes a row that can serve, is known by its name, and shares no state."""

import numpy as np
import pytest

from tests.builders import endpoint, racks
from tests.policies.tables import Situation
from vicinal.contracts.words import UnknownWordError
from vicinal.cost.pairs import cheapest
from vicinal.domain.endpoint import Role
from vicinal.policies.cost import Cost
from vicinal.policies.registry import POLICIES, policy

pytestmark = pytest.mark.mission("B1")
WITH_PARAMETERS = (
    "cost:local=no",
    "affinity:least_cached_share=0.9",
    "static_groups:borrow_s=0.1",
    "power_of_two:bias=8",
    "power_of_two:by=reported_requests+candidates=3",
    "least_loaded:by=reported_requests",
    "least_loaded:by=utilisation",
    "weighted_score:hops=0",
    "netkv:oracle=static",
    "selfish:by=cost",
    "prefill_then_decode:prefill=lmetric+decode=load",
)
EVERY = pytest.mark.parametrize("name", [*POLICIES, *WITH_PARAMETERS])


@EVERY
def test_name_is_that_of_the_registry(name: str) -> None:
    assert policy(name).name == name
    assert policy(name) is not policy(name)


@EVERY
def test_where_one_pair_is_left_it_is_taken(name: str) -> None:
    fleet = racks(2, 2, 2)
    for p in ("r1-p1", "r2-p2"):
        for d in ("r1-d2", "r2-d1"):
            blocked = {e.id for e in fleet} - {p, d}
            made = policy(name)
            for seed in range(3):
                seen = Situation(fleet, blocked=blocked, cached={"r1-p2": 100}, loads={p: 1e6})
                assert seen.choose(made, seed) == (p, d)


@EVERY
def test_one_pair_of_two_endpoints_of_both_roles(name: str) -> None:
    """Of four pairs two are an endpoint with itself, which is no pair."""
    fleet = [endpoint("a", Role.BOTH), endpoint("b", Role.BOTH)]
    made = policy(name)
    pairs = {Situation(fleet).choose(made, seed) for seed in range(30)}
    assert pairs <= {("a", "b"), ("b", "a")}
    mixed = [endpoint("b", Role.BOTH), endpoint("p", Role.PREFILL)]
    assert {Situation(mixed).choose(policy(name), seed) for seed in range(5)} == {("p", "b")}


@EVERY
@pytest.mark.parametrize("seed", range(12))
def test_some_are_blocked(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = [*racks(3, 2, 2), endpoint("b1", Role.BOTH, "r1"), endpoint("b2", Role.BOTH, "r4")]
    names = [str(e.id) for e in fleet]
    made = policy(name)
    for _ in range(10):
        blocked = {n for n in names if rng.random() < 0.5}
        seen = Situation(
            fleet,
            loads=dict(zip(names, rng.integers(0, 3, len(names)).tolist(), strict=True)),
            cached=dict(zip(names, rng.integers(0, 101, len(names)).tolist(), strict=True)),
            blocked=blocked,
        )
        if not seen.table().serving.any():
            continue
        assert not set(seen.choose(made, seed)) & blocked
        p, _ = seen.choose(made, seed)
        if seen.table(prefill=p).serving.any():
            assert seen.choose(made, seed, prefill=p)[0] == p


@EVERY
def test_the_same_seed_decides_the_same(name: str) -> None:
    def run(seed: int) -> list[tuple[str, str]]:
        made = policy(name)
        return [Situation(racks(2, 2, 2)).choose(made, seed + n) for n in range(20)]

    assert run(1) == run(1)


def test_cost_takes_the_smallest_total() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        fleet = racks(2, 2, 2)
        cached = {str(e.id): int(rng.integers(0, 101)) for e in fleet}
        seen = Situation(fleet, cached=cached, local=bool(seed % 2))
        table = seen.table()
        choice = seen.choice(Cost(), seed, table)
        i, j = np.indices(table.shape)
        least = min(float(table.totals(i, j).min()), float(table.local_s.min()))
        assert table.total(choice.i, choice.j) == pytest.approx(least)
        assert f"{least:.3f}" in choice.reason


def test_cost_takes_a_local_plan_where_that_is_cheapest() -> None:
    seen = Situation(racks(2, 1, 1), cached={"r2-d1": 99}, local=True)
    table = seen.table()
    choice = seen.choice(Cost(), 0, table)
    assert (choice.i, choice.j) == (table.local_row, 1)
    assert cheapest(table, 1, np.random.default_rng(0))[0].i == table.local_row


def test_cost_without_local_plans_takes_the_cheapest_pair() -> None:
    seen = Situation(racks(2, 1, 1), cached={"r2-d1": 99}, local=True)
    table = seen.table()
    choice = seen.choice(Cost(local="no"), 0, table)
    i, j = np.indices(table.shape)
    assert choice.i != table.local_row
    assert table.total(choice.i, choice.j) == pytest.approx(float(table.totals(i, j).min()))


@pytest.mark.parametrize(
    ("wrong", "hint"), [("affinty", "'affinity'"), ("least-loaded", "'least_loaded'"), ("roundrobin", "'round_robin'")]
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, hint: str) -> None:
    with pytest.raises(UnknownWordError, match=f"Did you mean {hint}"):
        policy(wrong)


def test_an_unknown_name_is_answered_with_all_names() -> None:
    with pytest.raises(UnknownWordError) as caught:
        policy("zzz")
    assert "Did you mean" not in str(caught.value)
    assert all(name in str(caught.value) for name in POLICIES)
