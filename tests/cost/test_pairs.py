"""The cheapest rows, exactly: against brute force over every row, in tables small and large."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from tests.builders import endpoint, racks, request
from tests.cost import oracle
from tests.cost.worlds import World, mixed_fleet, pools, world
from vicinal.cost import table as table_module
from vicinal.cost.model import Masks
from vicinal.cost.pairs import Pair, bounds, cheapest
from vicinal.cost.table import Table
from vicinal.domain.endpoint import Role
from vicinal.domain.request import INTERACTIVE

pytestmark = pytest.mark.mission("C1")


def every_total(table: Table) -> np.ndarray:
    """(P + 1, D): all pairs, the local row last."""
    i, j = np.indices(table.shape)
    return np.vstack((table.price(i, j).total_s, table.local_s))


def check(table: Table, count: int, seed: int) -> None:
    totals = every_total(table)
    expected = np.sort(totals[totals < np.inf])[:count]
    found = cheapest(table, count, np.random.default_rng(seed))
    assert [pair.total_s for pair in found] == pytest.approx(expected.tolist(), rel=1e-12)
    assert len({(pair.i, pair.j) for pair in found}) == len(found)
    for pair in found:
        assert pair.total_s == pytest.approx(totals[pair.i, pair.j], rel=1e-12)


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the table, rows are bounded and not all priced."""
    monkeypatch.setattr(table_module, "GRID_CELLS_MAX", 15)


def test_against_the_oracle() -> None:
    for seed in range(80):
        rng = np.random.default_rng(seed)
        made = world(rng, mixed_fleet(rng, int(rng.integers(1, 10))))
        expected = sorted(terms["total"] for terms in oracle.rows(made).values())[:9]
        found = cheapest(made.table(), 9, rng)
        assert [pair.total_s for pair in found] == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("flows_max", [0, 1, 8])
def test_bounded_choice_equals_brute_force(count: int, flows_max: int) -> None:
    """Mixed fleets: interfaces under load, endpoints of both roles, blocked ones, some without room."""
    for seed in range(90):
        rng = np.random.default_rng([seed, flows_max])
        made = world(rng, mixed_fleet(rng, int(rng.integers(8, 40))), flows_max=flows_max)
        table = made.table()
        if min(table.shape) > 3:
            assert not table.small
            check(table, count, seed)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("count", [1, 9])
def test_bounded_choice_where_most_are_blocked(count: int) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        fleet = mixed_fleet(rng, 24)
        made = world(rng, fleet, blocked_share=0.9)
        check(made.table(), count, seed)
        nobody = np.ones(len(fleet), dtype=bool)
        blocked = replace(made, masks=Masks(nobody, nobody, nobody))
        assert cheapest(blocked.table(), count, rng) == []
        alone = nobody.copy()
        alone[int(rng.integers(len(fleet)))] = False
        check(replace(made, masks=Masks(nobody, nobody, alone)).table(), count, seed)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("count", [1, 9])
def test_bounded_choice_where_one_pair_is_left(count: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fleet = pools(rng, 8, 8)
        p, d = int(rng.integers(8)), 8 + int(rng.integers(8))
        slots = np.arange(len(fleet))
        made = replace(world(rng, fleet), masks=Masks(slots != p, slots != d, np.ones(len(fleet), dtype=bool)))
        (found,) = cheapest(made.table(), count, rng)
        assert (found.i, found.j) == (p, d - 8)


@pytest.mark.parametrize("seed", range(4))
def test_large_tables(seed: int) -> None:
    """Over 4,096 pairs without any help, most of them cut off by their bounds."""
    rng = np.random.default_rng(seed)
    fleet = pools(rng, 72 + seed, 66)
    made = world(rng, fleet, blocked_share=0.02, full_share=0.02 if seed % 2 else 0.0, flows_max=6)
    table = made.table()
    assert not table.small
    check(table, 9, seed)
    check(table, 1, seed)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("full_share", [0.0, 0.2, 1.0])
def test_bounds_are_below_every_pair(full_share: float) -> None:
    """With full decode endpoints, too, where waiting for HBM hides what prefill takes."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        made = world(rng, mixed_fleet(rng, 14), full_share=full_share)
        table = made.table()
        if not table.shape[0] or not table.shape[1]:
            continue
        rows, columns = bounds(table)
        assert not np.isnan(rows).any()
        assert not np.isnan(columns).any()
        totals = every_total(table)[:-1]
        slack = 1 + 1e-9
        assert np.all(rows[:, None] <= totals * slack)
        assert np.all(columns <= totals * slack)


@pytest.mark.parametrize("cells_max", [15, 4096])
def test_only_some_rows(cells_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among some prefill endpoints, without local plans."""
    monkeypatch.setattr(table_module, "GRID_CELLS_MAX", cells_max)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = world(rng, mixed_fleet(rng, int(rng.integers(8, 40)))).table()
        rows = rng.random(table.shape[0]) < 0.4
        totals = every_total(table)[:-1][rows]
        expected = np.sort(totals[totals < np.inf])[:5]
        found = cheapest(table, 5, rng, rows)
        assert [pair.total_s for pair in found] == pytest.approx(expected.tolist(), rel=1e-12)
        assert all(pair.i != table.local_row and rows[pair.i] for pair in found)


def even(prefills: int, decodes: int) -> World:
    """An idle rack of equal endpoints: every pair costs the same."""
    made = world(np.random.default_rng(0), racks(1, prefills, decodes), 0.0, 0.0, 0)
    slots = len(made.endpoints)
    zero, nobody = np.zeros(slots), np.zeros(slots, dtype=bool)
    view = structs.replace(
        made.view, wait_prefill_s=zero, decode_sequences=zero, decode_context_tokens=zero, pressure_s=None
    )
    wanted = request("even", 4096, service=INTERACTIVE)
    return replace(
        made,
        view=view,
        request=wanted,
        cached=np.zeros(slots, dtype=np.int32),
        masks=Masks(nobody, nobody, np.ones(slots, dtype=bool)),
    )


@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("cells_max", [15, 4096])
def test_ties_are_drawn_from_the_stream(count: int, cells_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "GRID_CELLS_MAX", cells_max)
    table = even(6, 6).table()
    assert len(set(every_total(table)[:-1].ravel().tolist())) == 1

    def winner(seed: int) -> Pair:
        return cheapest(table, count, np.random.default_rng(seed))[0]

    assert [winner(seed) for seed in range(20)] == [winner(seed) for seed in range(20)]
    won = Counter((pair.i, pair.j) for pair in map(winner, range(800)))
    assert len(won) == 36, "every one of the equals wins at times"
    assert max(won.values()) < 800 / 36 * 3


@pytest.mark.parametrize("count", [1, 9])
def test_ties_between_local_plans_and_pairs_are_drawn_too(count: int) -> None:
    """Locals only: two idle decode endpoints that prefill for themselves."""
    made = even(1, 4)
    slots = np.arange(5)
    masks = Masks(slots >= 0, slots >= 0, slots == 0)
    table = replace(made, masks=masks).table()
    won = {cheapest(table, count, np.random.default_rng(seed))[0] for seed in range(60)}
    assert {(pair.i, pair.j) for pair in won} == {(table.local_row, j) for j in range(4)}


def test_a_unique_winner_needs_no_luck() -> None:
    made = even(3, 3)
    view = structs.replace(made.view, wait_prefill_s=np.array([1.0, 0.5, 1.0, 0.0, 0.0, 0.0]))
    table = replace(made, view=view).table()
    assert {cheapest(table, 1, np.random.default_rng(seed))[0].i for seed in range(20)} == {1}


def test_empty_pools() -> None:
    rng = np.random.default_rng(0)
    only_decode = world(rng, [endpoint("d", Role.DECODE)], blocked_share=0.0).table()
    assert [(pair.i, pair.j) for pair in cheapest(only_decode, 9, rng)] == [(0, 0)]
    only_prefill = world(rng, [endpoint("p", Role.PREFILL)], blocked_share=0.0).table()
    assert cheapest(only_prefill, 9, rng) == []
