"""`static_groups:borrow_s`: a saturated group's requests go to the group where they would begin first."""

import numpy as np
import pytest
from msgspec import structs

from tests.builders import racks, request
from tests.policies.tables import Situation, engines
from tests.scheduler.play import Play, only
from vicinal.cost.pairs import Ranking
from vicinal.domain.effects import Dispatch
from vicinal.domain.endpoint import Endpoint
from vicinal.policies.static_groups import StaticGroups

pytestmark = pytest.mark.mission("A5")


def turns(made: StaticGroups, waits_s: dict[str, float], racks_: int = 2, times: int = 12) -> list[str]:
    """The rack of each request's pair."""
    seen = Situation(fleet := racks(racks_, 2, 1))
    table = seen.table()
    of = np.array([waits_s.get(e.id, 0.0) for e in fleet])
    table.prefill = structs.replace(table.prefill, wait_s=of[table.prefill.slots])
    chance, found = np.random.default_rng(0), []
    for _ in range(times):
        choice = made.choose(seen.request, table, Ranking(table, 1), chance)
        pair = fleet[int(table.prefill.slots[choice.i])], fleet[int(table.decode.slots[choice.j])]
        assert pair[0].placement.leaf == pair[1].placement.leaf, "what is lent is the whole pair"
        found.append(pair[0].placement.leaf)
    return found


BUSY = {"r1-p1": 3.0, "r1-p2": 2.0, "r2-p1": 9.0, "r2-p2": 0.5}


@pytest.mark.parametrize(
    ("borrow_s", "expected"), [(0.0, ["r2", "r2"]), (1.49, ["r2", "r2"]), (1.5, ["r1", "r2"]), (9.0, ["r1", "r2"])]
)
def test_it_borrows_past_so_many_seconds(borrow_s: float, expected: list[str]) -> None:
    """Prefill would begin in r1 after 2 s, in r2 after 0.5 s."""
    assert turns(StaticGroups(borrow_s=borrow_s), BUSY) == expected * 6


def test_without_the_parameter_it_waits() -> None:
    assert turns(StaticGroups(), BUSY) == ["r1", "r2"] * 6


def test_it_borrows_from_the_least_busy() -> None:
    waits_s = {f"r{n}-p{m}": {1: 9.0, 2: 4.0, 3: 1.0}[n] for n in (1, 2, 3) for m in (1, 2)}
    assert turns(StaticGroups(borrow_s=2.0), waits_s, racks_=3) == ["r3"] * 12
    assert turns(StaticGroups(borrow_s=5.0), waits_s, racks_=3) == ["r3", "r2", "r3"] * 4


def test_a_blocked_endpoint_lends_nothing() -> None:
    """r2 would be free at once, were its one idle prefill endpoint not out."""
    seen = Situation(racks(2, 2, 1), blocked={"r2-p2"})
    table = seen.table()
    table.prefill = structs.replace(table.prefill, wait_s=np.array([3.0, 2.0, 9.0, 0.0]))
    made, chance = StaticGroups(borrow_s=0.5), np.random.default_rng(0)
    assert {made.choose(seen.request, table, Ranking(table, 1), chance).i for _ in range(6)} <= {0, 1}


def test_the_reason_says_so() -> None:
    seen = Situation(racks(2, 1, 1))
    table = seen.table()
    table.prefill = structs.replace(table.prefill, wait_s=np.array([2.0, 0.0]))
    choice = StaticGroups(borrow_s=1.0).choose(seen.request, table, Ranking(table, 1), np.random.default_rng(0))
    assert choice.reason == "group r1 is saturated: borrowed from r2"


@pytest.mark.parametrize("fleet", [racks(2, 1, 1), engines(2, leaves=2)], ids=["pairs", "engines"])
def test_a_long_prompt_in_one_group_sends_the_next_ones_to_the_other(fleet: list[Endpoint]) -> None:
    """From the ledger of a scheduler: 100,000 tokens wait in r1 for some seconds, what follows does not."""
    leaf = {e.id: e.placement.leaf for e in fleet}
    for text, expected in (("static_groups", {"r1": 4, "r2": 4}), ("static_groups:borrow_s=1", {"r1": 0, "r2": 8})):
        play = Play(fleet, policy_name=text)
        assert leaf[only(Dispatch, play.arrive(request("long", 100_000))).endpoint] == "r1"
        play.arrive(request("short", 16))
        taken = [leaf[only(Dispatch, play.arrive(request(f"q{n}", 16))).endpoint] for n in range(8)]
        assert {each: taken.count(each) for each in ("r1", "r2")} == expected
