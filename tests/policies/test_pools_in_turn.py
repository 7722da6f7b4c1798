"""`round_robin`, `least_loaded`, `static_groups`: the policies that look neither at distance nor at cache."""

from collections import Counter
from itertools import product
from math import gcd

import pytest

from tests.builders import endpoint, racks, request, scheduler
from tests.policies.tables import Situation
from vicinal.domain.effects import Dispatch, Record
from vicinal.domain.endpoint import Placement, Role
from vicinal.domain.events import FirstToken, PrefillDone, RequestArrived, RequestFinished
from vicinal.policies.least_loaded import LeastLoaded
from vicinal.policies.round_robin import RoundRobin
from vicinal.policies.static_groups import StaticGroups
from vicinal.scheduler.scheduler import Scheduler


@pytest.mark.mission("A1", "B1")
def test_round_robin_takes_every_pair_equally_often() -> None:
    """Two racks of 2 + 2: over 64 requests, each of the 16 pairs has four turns, so half of all cross the racks."""
    policy, seen = RoundRobin(), Situation(racks(2, 2, 2))
    turns = Counter(seen.choose(policy) for _ in range(64))
    assert len(turns) == 16
    assert set(turns.values()) == {4}
    assert sum(n for (p, d), n in turns.items() if p[:2] != d[:2]) == 32


@pytest.mark.mission("A1", "B1")
@pytest.mark.parametrize(("prefills", "decodes"), list(product(range(1, 6), repeat=2)))
def test_round_robin_never_runs_in_lockstep(prefills: int, decodes: int) -> None:
    policy, seen = RoundRobin(), Situation(racks(1, prefills, decodes))
    pairs = [seen.choose(policy) for _ in range(2 * prefills * decodes)]
    half = len(pairs) // 2
    assert set(Counter(pairs[:half]).values()) == {1}
    assert len(set(pairs[:half])) == prefills * decodes
    assert [p for p, _ in pairs] == [f"r1-p{1 + turn % prefills}" for turn in range(len(pairs))]
    round_ = prefills * decodes // gcd(prefills, decodes)
    for start in range(0, half, round_):
        used = Counter(d for _, d in pairs[start : start + round_])
        assert len(set(used.values())) == 1
        assert len(used) == decodes


@pytest.mark.mission("B1")
def test_round_robin_shares_what_blocked_ones_leave_evenly() -> None:
    policy = RoundRobin()
    seen = Situation(racks(1, 4, 3), blocked={"r1-p2", "r1-d1"})
    used = Counter(name for _ in range(12) for name in seen.choose(policy))
    assert used == {"r1-p1": 4, "r1-p3": 4, "r1-p4": 4, "r1-d2": 6, "r1-d3": 6}


@pytest.mark.mission("B1")
def test_round_robin_over_endpoints_of_both_roles() -> None:
    policy, seen = RoundRobin(), Situation([endpoint(f"b{n}", Role.BOTH) for n in range(4)])
    turns = Counter(seen.choose(policy) for _ in range(24))
    assert len(turns) == 12
    assert set(turns.values()) == {2}


@pytest.mark.mission("A1", "B1")
def test_least_loaded_is_blind_to_distance_and_cache() -> None:
    seen = Situation(
        racks(2, 2, 2),
        loads={"r1-p1": 10, "r1-p2": 20, "r2-p1": 5, "r2-p2": 30, "r1-d1": 2, "r1-d2": 9, "r2-d1": 3, "r2-d2": 4},
        cached={"r1-p1": 100},
    )
    assert seen.draws(LeastLoaded) == {("r2-p1", "r1-d1")}


@pytest.mark.mission("A1")
def test_least_loaded_draws_among_equals() -> None:
    seen = Situation(racks(2, 1, 1), loads={"r1-d1": 1})
    assert seen.draws(LeastLoaded) == {("r1-p1", "r2-d1"), ("r2-p1", "r2-d1")}


@pytest.mark.mission("A1")
def test_least_loaded_skips_the_blocked() -> None:
    loads = {"r1-p2": 10, "r2-p1": 20, "r2-p2": 30, "r1-d2": 1, "r2-d1": 2, "r2-d2": 3}
    seen = Situation(racks(2, 2, 2), loads=loads, blocked={"r1-p1", "r1-p2", "r1-d1"})
    assert seen.draws(LeastLoaded) == {("r2-p1", "r1-d2")}


@pytest.mark.mission("A5")
def test_static_groups_stay_inside_the_rack_and_take_turns() -> None:
    policy, seen = StaticGroups(), Situation(racks(3, 2, 2))
    pairs = [seen.choose(policy, seed) for seed in range(30)]
    assert all(p[:2] == d[:2] for p, d in pairs)
    assert [p[:2] for p, _ in pairs] == ["r1", "r2", "r3"] * 10


@pytest.mark.mission("A5")
def test_static_groups_balance_inside_the_group() -> None:
    seen = Situation(racks(1, 2, 2), loads={"r1-p1": 5, "r1-d2": 5})
    assert seen.draws(StaticGroups) == {("r1-p2", "r1-d1")}


@pytest.mark.mission("A5")
def test_static_groups_do_not_borrow() -> None:
    """The known weakness: a busy group does not get help from an idle one."""
    busy = {"r1-p1": 1e6, "r1-d1": 1e6}
    policy, seen = StaticGroups(), Situation(racks(2, 1, 1), loads=busy)
    assert Counter(seen.choose(policy)[0] for _ in range(10)) == {"r1-p1": 5, "r2-p1": 5}


@pytest.mark.mission("A5")
def test_a_group_without_decode_is_passed_over() -> None:
    policy, seen = StaticGroups(), Situation(racks(2, 1, 1), blocked={"r1-d1"})
    assert {seen.choose(policy) for _ in range(6)} == {("r2-p1", "r2-d1")}


@pytest.mark.mission("A5")
def test_where_no_group_is_whole_it_leaves_the_groups_and_says_so() -> None:
    seen = Situation(racks(2, 1, 1), blocked={"r1-d1", "r2-p1"})
    assert seen.choose(StaticGroups()) == ("r1-p1", "r2-d1")
    assert "outside" in seen.choice(StaticGroups()).reason


@pytest.mark.mission("A5")
def test_unknown_places_form_a_group_together() -> None:
    nowhere = [endpoint(f"x-{r}", r, placement=Placement()) for r in (Role.PREFILL, Role.DECODE)]
    policy, seen = StaticGroups(), Situation([*racks(1, 1, 1), *nowhere])
    assert Counter(seen.choose(policy) for _ in range(10)) == {
        ("r1-p1", "r1-d1"): 5,
        ("x-prefill", "x-decode"): 5,
    }


def served(made: Scheduler, name: str, now: float) -> tuple[str, str]:
    """Run one request from arrival to its end; returns who prefilled and who decoded."""
    effects = made.handle(RequestArrived(request(name)), now)
    (first,) = [e for e in effects if isinstance(e, Dispatch)]
    effects = made.handle(PrefillDone(first.request_id, 1, None), now + 0.1)
    (second,) = [e for e in effects if isinstance(e, Dispatch)]
    made.handle(FirstToken(first.request_id, 1), now + 0.2)
    made.handle(RequestFinished(first.request_id, 1, 10), now + 0.3)
    return str(first.endpoint), str(second.endpoint)


@pytest.mark.mission("A5")
def test_static_groups_take_turns_over_whole_requests() -> None:
    """Decode is chosen anew when each prefill is done; that is not a turn, or one group would get every request."""
    made = scheduler(racks(2, 2, 2), "static_groups")
    ended = [served(made, f"q{n}", n * 1.0) for n in range(20)]
    assert all(p[:2] == d[:2] for p, d in ended)
    assert Counter(p[:2] for p, _ in ended) == {"r1": 10, "r2": 10}


@pytest.mark.mission("A1", "B1")
def test_round_robin_keeps_its_pairs_over_whole_requests() -> None:
    made = scheduler(racks(2, 2, 2), "round_robin")
    ended = Counter(served(made, f"q{n}", n * 1.0) for n in range(32))
    assert len(ended) == 16
    assert set(ended.values()) == {2}


@pytest.mark.mission("A1")
def test_least_loaded_weighs_decode_anew_without_counting_the_request_itself() -> None:
    """Alone in the fleet, a request finds every decode endpoint idle, its pencilled one included: each is as good."""
    stayed = 0
    for seed in range(40):
        made = scheduler(racks(1, 1, 2), "least_loaded", seed=seed)
        (record,) = [e for e in made.handle(RequestArrived(request("q")), 0.0) if isinstance(e, Record)]
        (again,) = [e for e in made.handle(PrefillDone(request("q").id, 1, None), 0.1) if isinstance(e, Record)]
        stayed += record.decision.chosen.plan.decode == again.decision.chosen.plan.decode
    assert 5 < stayed < 35
