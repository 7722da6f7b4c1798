"""What each policy does where one engine must serve the whole request: aggregated fleets, unsplittable requests."""

from collections import Counter

import pytest

from tests.builders import racks, request, scheduler
from tests.policies.tables import Situation, engines
from vicinal.domain.effects import Record
from vicinal.domain.events import RequestArrived
from vicinal.policies.affinity import Affinity
from vicinal.policies.cost import Cost
from vicinal.policies.decode_first import DecodeFirst
from vicinal.policies.least_loaded import LeastLoaded
from vicinal.policies.prefill_first import PrefillFirst
from vicinal.policies.registry import POLICIES, policy
from vicinal.policies.round_robin import RoundRobin
from vicinal.policies.static_groups import StaticGroups

pytestmark = pytest.mark.mission("B2")


@pytest.mark.parametrize("name", POLICIES)
def test_the_one_that_is_left_is_taken(name: str) -> None:
    fleet = engines(6, leaves=3)
    made = policy(name)
    for one in fleet:
        seen = Situation(fleet, blocked={e.id for e in fleet} - {one.id}, cached={"e1": 100}, local=True)
        assert {seen.choose_whole(made, seed) for seed in range(3)} == {one.id}


@pytest.mark.mission("A1")
def test_round_robin_takes_turns() -> None:
    made, seen = RoundRobin(), Situation(engines(4), local=True, loads={"e1": 1e6})
    assert [seen.choose_whole(made) for _ in range(8)] == ["e1", "e2", "e3", "e4"] * 2
    without = Situation(engines(4), local=True, blocked={"e2"})
    assert [without.choose_whole(RoundRobin()) for _ in range(1)] == ["e1"]
    assert Counter(without.choose_whole(made) for _ in range(9)) == {"e1": 3, "e3": 3, "e4": 3}


@pytest.mark.mission("A1")
def test_turns_of_whole_requests_are_not_turns_of_pairs() -> None:
    """Or a stream of unsplittable requests in between would pair the same endpoints for ever."""
    made, apart = RoundRobin(), RoundRobin()
    pairs = Situation(racks(2, 2, 2))
    whole = Situation(engines(3), local=True)
    mixed = []
    for _ in range(16):
        mixed.append(pairs.choose(made))
        whole.choose_whole(made)
    assert mixed == [pairs.choose(apart) for _ in range(16)]


@pytest.mark.mission("A1")
@pytest.mark.parametrize("make", [LeastLoaded, DecodeFirst])
def test_the_least_loaded_counts_both_phases(make: type[LeastLoaded | DecodeFirst]) -> None:
    """`loads` is outstanding in both phases, so the sum is twice as much."""
    seen = Situation(engines(4), local=True, loads={"e1": 3, "e2": 2, "e3": 2, "e4": 4}, cached={"e1": 100})
    assert seen.whole_draws(make) == {"e2", "e3"}


@pytest.mark.mission("A4")
def test_prefill_first_takes_the_longest_prefix_then_the_least_loaded() -> None:
    cached, loads = {"e1": 50, "e2": 70, "e3": 70}, {"e2": 9, "e3": 8}
    assert Situation(engines(4), local=True, loads=loads, cached=cached).whole_draws(PrefillFirst) == {"e3"}
    assert Situation(engines(4), local=True, loads=loads, cached=cached, blocked={"e2", "e3"}).whole_draws(
        PrefillFirst
    ) == {"e1"}


@pytest.mark.mission("A4")
@pytest.mark.parametrize(("blocks", "taken"), [(49, "e2"), (50, "e1")])
def test_affinity_switches_at_the_cached_share(blocks: int, taken: str) -> None:
    seen = Situation(engines(2), local=True, loads={"e1": 7}, cached={"e1": blocks})
    assert seen.whole_draws(Affinity) == {taken}


@pytest.mark.mission("A5")
def test_static_groups_take_turns_and_balance_inside() -> None:
    loads = {"e1": 5, "e3": 4, "e4": 5, "e2": 6}
    made, seen = StaticGroups(), Situation(engines(4, leaves=2), local=True, loads=loads)
    assert [seen.choose_whole(made) for _ in range(4)] == ["e3", "e4", "e3", "e4"]


def test_cost_takes_the_smallest_total() -> None:
    seen = Situation(engines(4), local=True, cached={"e3": 80})
    table = seen.table()
    assert seen.whole_draws(Cost) == {"e3"}
    assert table.local_s.argmin() == 2


@pytest.mark.parametrize("name", ["round_robin", "least_loaded", "decode_first", "static_groups", "locality"])
def test_unsplittable_requests_are_spread_by_the_policys_own_rule(name: str) -> None:
    """Not by cost, which would see a share of each prompt cached where the first went."""
    made, taken = scheduler(racks(2, 1, 2), name), []
    for n in range(4):
        effects = made.handle(RequestArrived(request(f"q{n}", splittable=False)), 0.0)
        (decision,) = [e.decision for e in effects if isinstance(e, Record)]
        assert decision.chosen.plan.local
        taken.append(decision.chosen.plan.decode)
    assert sorted(taken) == ["r1-d1", "r1-d2", "r2-d1", "r2-d2"]


@pytest.mark.parametrize("name", POLICIES)
def test_an_unsplittable_request_is_served_whole(name: str) -> None:
    made = scheduler(racks(1, 1, 2), name)
    effects = made.handle(RequestArrived(request("q", splittable=False)), 0.0)
    (decision,) = [e.decision for e in effects if isinstance(e, Record)]
    assert decision.chosen.plan.local
    assert decision.chosen.plan.decode != "r1-p1"
