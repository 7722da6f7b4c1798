"""`decode_first`, `prefill_first`, `affinity`: who decides, and then the nearest."""

import pytest

from tests.builders import endpoint, racks, request
from tests.policies.tables import Situation
from vicinal.domain.endpoint import Placement, Role
from vicinal.policies.affinity import Affinity
from vicinal.policies.decode_first import DecodeFirst
from vicinal.policies.prefill_first import PrefillFirst


@pytest.mark.mission("A3")
def test_decode_first_takes_the_least_loaded_decode_then_the_nearest_prefill() -> None:
    loads = {"r1-d1": 1, "r1-d2": 2, "r2-d1": 3, "r2-d2": 0, "r2-p1": 900, "r2-p2": 800}
    seen = Situation(racks(2, 2, 2), loads=loads, cached={"r1-p1": 100})
    assert seen.draws(DecodeFirst) == {("r2-p2", "r2-d2")}, "near and busy before far and idle"


@pytest.mark.mission("A3")
def test_decode_first_prefers_the_same_host() -> None:
    here = Placement("h", "r1", "pod", "site")
    fleet = [
        *racks(1, 2, 0),
        endpoint("neighbour", Role.PREFILL, placement=here),
        endpoint("d", Role.DECODE, placement=here),
    ]
    assert Situation(fleet, loads={"neighbour": 1e6}).draws(DecodeFirst) == {("neighbour", "d")}


@pytest.mark.mission("A3", "A2")
def test_unknown_is_the_farthest() -> None:
    fleet = [
        endpoint("lost", Role.PREFILL, placement=Placement()),
        endpoint("far", Role.PREFILL, placement=Placement("h", "r9", "pod9", "site")),
        endpoint("d", Role.DECODE),
    ]
    assert Situation(fleet, loads={"far": 1e6}).draws(DecodeFirst) == {("far", "d")}
    assert Situation(fleet, blocked={"far"}).draws(DecodeFirst) == {("lost", "d")}


@pytest.mark.mission("A3")
def test_decode_first_binds_decode_and_passes_over_the_blocked() -> None:
    seen = Situation(racks(2, 2, 2), loads={"r1-d2": 1, "r2-d1": 2, "r2-d2": 3}, blocked={"r1-d1", "r1-p1"})
    assert seen.draws(DecodeFirst) == {("r1-p2", "r1-d2")}
    assert seen.choice(DecodeFirst()).decode_bound


@pytest.mark.mission("A4")
def test_prefill_first_takes_the_longest_cached_prefix_then_the_nearest_decode() -> None:
    loads = {"r2-p1": 1e6, "r2-d1": 500, "r2-d2": 400}
    seen = Situation(racks(2, 2, 2), loads=loads, cached={"r1-p1": 50, "r2-p1": 51, "r1-d1": 100})
    assert seen.draws(PrefillFirst) == {("r2-p1", "r2-d2")}


@pytest.mark.mission("A4")
def test_prefill_first_breaks_equal_prefixes_by_load() -> None:
    seen = Situation(
        racks(2, 2, 1), loads={"r1-p1": 5, "r2-p2": 4, "r1-p2": 9}, cached={"r1-p1": 70, "r2-p2": 70, "r2-p1": 69}
    )
    assert seen.draws(PrefillFirst) == {("r2-p2", "r2-d1")}


@pytest.mark.mission("A4")
def test_prefill_first_passes_over_a_blocked_holder() -> None:
    seen = Situation(racks(2, 1, 1), cached={"r1-p1": 100, "r2-p1": 1}, blocked={"r1-p1"})
    assert seen.draws(PrefillFirst) == {("r2-p1", "r2-d1")}


AFFINITY = {"r1-d1": 7, "r2-d1": 3}
"""Decode is freer in r2; the prefix is cached in r1."""


@pytest.mark.mission("A3", "A4")
@pytest.mark.parametrize(
    ("blocks", "taken"),
    [(0, ("r2-p1", "r2-d1")), (49, ("r2-p1", "r2-d1")), (50, ("r1-p1", "r1-d1")), (100, ("r1-p1", "r1-d1"))],
)
def test_affinity_switches_at_the_cached_share(blocks: int, taken: tuple[str, str]) -> None:
    """50 of the prompt's 100 blocks are just enough."""
    seen = Situation(racks(2, 1, 1), loads=AFFINITY, cached={"r1-p1": blocks})
    assert seen.draws(Affinity) == {taken}
    assert seen.choice(Affinity()).decode_bound == (taken[0] == "r2-p1")


@pytest.mark.mission("A4")
def test_affinity_share_is_a_setting_and_of_the_whole_prompt() -> None:
    seen = Situation(racks(2, 1, 1), loads=AFFINITY, cached={"r1-p1": 20})
    assert seen.choose(Affinity()) == ("r2-p1", "r2-d1")
    assert seen.choose(Affinity(least_cached_share=0.2)) == ("r1-p1", "r1-d1")
    longer = Situation(racks(2, 1, 1), loads=AFFINITY, cached={"r1-p1": 50}, request=request("longer", 1616))
    assert longer.choose(Affinity()) == ("r2-p1", "r2-d1")


@pytest.mark.mission("A4")
def test_what_only_decode_or_a_blocked_prefill_holds_does_not_switch() -> None:
    """Decode is chosen by load, in r1, and not for its nearness to the one prefill endpoint that is left."""
    seen = Situation(racks(2, 1, 1), loads={"r2-d1": 1}, cached={"r1-d1": 100, "r1-p1": 100}, blocked={"r1-p1"})
    assert seen.choose(Affinity()) == ("r2-p1", "r1-d1")


@pytest.mark.mission("A4")
def test_decode_chosen_anew_is_near_the_prefill() -> None:
    seen = Situation(racks(2, 1, 2), loads={"r1-d1": 50, "r1-d2": 40}, cached={"r1-p1": 100})
    for policy in (PrefillFirst(), Affinity()):
        assert seen.choose(policy, prefill="r1-p1") == ("r1-p1", "r1-d2")


@pytest.mark.mission("A3", "A4")
def test_of_an_empty_prompt_nothing_is_cached() -> None:
    seen = Situation(racks(1, 1, 1), request=request("empty", 0))
    assert seen.draws(Affinity) == {("r1-p1", "r1-d1")}
