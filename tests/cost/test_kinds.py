"""Pairs that cannot be (two kinds of hand-off, a pair that failed) against brute force: they are in no table."""

from dataclasses import replace

import numpy as np
import pytest

from tests.cost import oracle
from tests.cost.worlds import World, mixed_fleet, world
from vicinal.cost import table as table_module
from vicinal.cost.pairs import cheapest
from vicinal.domain.endpoint import Endpoint, HandOff

pytestmark = pytest.mark.mission("C1")


def of_kinds(rng: np.random.Generator, fleet: list[Endpoint]) -> list[Endpoint]:
    return [replace(one, hand_off=HandOff(rng.choice(list(HandOff)))) for one in fleet]


def rows(made: World, avoided: set[tuple[int, int]]) -> dict[tuple[int, int], float]:
    """All rows that can be, by slots, from the oracle."""

    def can_be(source: int, target: int) -> bool:
        if source == target:
            return True
        kinds = {made.endpoints[slot].hand_off for slot in (source, target)}
        return len(kinds) == 1 and (source, target) not in avoided

    return {place: terms["total"] for place, terms in oracle.rows(made).items() if can_be(*place)}


@pytest.mark.parametrize("cells_max", [15, 4096])
@pytest.mark.parametrize("with_failures", [False, True])
def test_against_the_oracle(cells_max: int, with_failures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "GRID_CELLS_MAX", cells_max)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        made = world(rng, of_kinds(rng, mixed_fleet(rng, int(rng.integers(4, 16)))))
        avoided: set[tuple[int, int]] = set()
        if with_failures:
            slots = len(made.endpoints)
            avoided = {tuple(pair) for pair in rng.integers(0, slots, (3, 2)).tolist()}
            before = {place for place in rows(made, set()) if place[0] != place[1]}
            made.model.avoid(sorted(avoided))
            if not made.model.pools.paths.distinct.any() or before <= avoided:
                continue  # the last pairs are not avoided
        expected = rows(made, avoided)
        table = made.table()
        found = cheapest(table, 9, rng)
        assert [pair.total_s for pair in found] == pytest.approx(sorted(expected.values())[:9], rel=1e-9)
        assert table.rows_usable == len(expected)
        sources = {int(table.prefill.slots[i]) for i in np.flatnonzero(table.serving)}
        assert sources == {source for source, target in expected if source != target}


def test_avoiding_the_last_pairs_avoids_nothing() -> None:
    rng = np.random.default_rng(3)
    made = world(rng, mixed_fleet(rng, 6), blocked_share=0.0)
    slots = range(6)
    before = made.model.pools.paths.distinct.copy()
    made.model.avoid([(p, d) for p in slots for d in slots])
    assert (made.model.pools.paths.distinct == before).all()
    p, d = (int(where[0]) for where in before.nonzero())
    source, target = int(made.model.pools.prefill_slots[p]), int(made.model.pools.decode_slots[d])
    made.model.avoid([(source, target)])
    assert np.count_nonzero(made.model.pools.paths.distinct) == np.count_nonzero(before) - 1
    made.model.avoid([])
    assert (made.model.pools.paths.distinct == before).all()
