"""The table against the oracle: every term of every row, in random worlds."""

import numpy as np
import pytest

from tests.builders import endpoint
from tests.cost import oracle
from tests.cost.worlds import World, mixed_fleet, world
from vicinal.cost.table import Table
from vicinal.domain.decision import TERMS
from vicinal.domain.endpoint import Role

pytestmark = pytest.mark.mission("C1", "C6", "A8", "B3")


def row_slots(table: Table, i: int, j: int) -> tuple[int, int]:
    target = int(table.decode.slots[j])
    return (target if i == table.local_row else int(table.prefill.slots[i])), target


def all_rows(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Every (i, j), local ones included."""
    rows, columns = table.shape
    i, j = np.divmod(np.arange((rows + 1) * columns), max(columns, 1))
    return i, j


def check(made: World) -> int:
    table, expected = made.table(), oracle.rows(made)
    i, j = all_rows(table)
    seen = {}
    for at, (row, column) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
        total = table.total(row, column)
        if total < np.inf:
            seen[row_slots(table, row, column)] = total, at
        else:
            assert total == np.inf, "neither NaN nor minus infinity"
    assert seen.keys() == expected.keys()
    if not len(i):
        return 0
    pairs = i < table.local_row
    explained = table.pairs_explained(i[pairs], j[pairs]) + table.locals_explained(j[~pairs])
    for slots, (total, at) in seen.items():
        assert total == pytest.approx(expected[slots]["total"], rel=1e-9), slots
        assert explained[at][0] == total
        got = {name: value for name, value in zip(TERMS, explained[at][1], strict=True) if value is not None}
        assert got == pytest.approx({k: v for k, v in expected[slots].items() if k != "total"}, rel=1e-9, abs=1e-12)
    return len(seen)


@pytest.mark.parametrize("seed", range(60))
def test_every_term_of_every_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = world(rng, mixed_fleet(rng, int(rng.integers(1, 10))))
    check(made)
    assert made.table().ttft_objective_s == pytest.approx(oracle.objective_s(made))


def test_worlds_are_worth_testing() -> None:
    """The random worlds have rows, and have in them what the formulas speak of."""
    rows = waits = links = readies = locals_ = fetches = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for (source, target), terms in oracle.rows(world(rng, mixed_fleet(rng, 8))).items():
            rows += 1
            waits += terms["wait_prefill"] > 0
            links += terms.get("link_price", 0) > 0
            readies += terms.get("decode_ready", 0) > 0
            locals_ += source == target
            fetches += terms.get("fetch_kv", 0) > 0
    assert min(waits, links, readies, locals_, fetches) > rows / 40
    assert rows > 200


@pytest.mark.parametrize("roles", [(Role.DECODE,) * 3, (Role.PREFILL,) * 3, (Role.BOTH,), ()])
def test_one_sided_fleets(roles: tuple[Role, ...]) -> None:
    rng = np.random.default_rng(1)
    made = world(rng, [endpoint(f"e{n}", role) for n, role in enumerate(roles)], blocked_share=0.0)
    assert check(made) == sum(role.decodes for role in roles)


def test_usable_and_serving_follow_from_the_masks() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        made = world(rng, mixed_fleet(rng, int(rng.integers(1, 7))), blocked_share=0.5)
        table, masks = made.table(), made.masks
        expected = [
            [
                not masks.prefill_blocked[p] and not masks.decode_blocked[d] and p != d
                for d in table.decode.slots.tolist()
            ]
            for p in table.prefill.slots.tolist()
        ]
        assert table.usable.tolist() == expected
        assert table.serving.tolist() == [any(row) for row in expected]


@pytest.mark.parametrize("seed", range(25))
def test_decode_table_has_the_prefill_behind_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = world(rng, [endpoint("p", Role.PREFILL), *mixed_fleet(rng, 6)])
    prefills = [slot for slot, e in enumerate(made.endpoints) if e.role.prefills]
    source = int(rng.choice(prefills))
    table = made.decode_table(source)
    assert table.prefill.slots.tolist() == [source]
    assert np.all(table.local_s == np.inf), "what is prefilled already is not prefilled again"
    for j, target in enumerate(table.decode.slots.tolist()):
        if target == source or made.masks.decode_blocked[target]:
            assert table.total(0, j) == np.inf
            continue
        expected = oracle.pair(made, source, target, prefill_done=True)
        assert table.total(0, j) == pytest.approx(expected.pop("total"), rel=1e-9)
        ((_, terms),) = table.pairs_explained(np.array([0]), np.array([j]))
        got = {name: value for name, value in zip(TERMS, terms, strict=True) if value is not None}
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.mission("A7")
def test_blocks_that_decode_holds_do_not_move() -> None:
    rng = np.random.default_rng(1)
    fleet = [endpoint("p", Role.PREFILL), endpoint("none", Role.DECODE), endpoint("some", Role.DECODE)]
    made = world(rng, fleet, blocked_share=0.0, full_share=0.0, tiers=0.0)
    made.cached[:] = [0, 0, 10]
    table = made.table()
    assert made.request.prompt_tokens > 160
    assert table.decode.held_tokens.tolist() == [0.0, 160.0]
    assert table.decode.moved_bytes[0] - table.decode.moved_bytes[1] == 160 * 327_680
    before = table.price(0, 1).transfer_s
    made.cached[2] = 0
    assert made.table().price(0, 1).transfer_s > before


@pytest.mark.mission("B1", "B9")
def test_a_copy_below_hbm_is_loaded_where_the_prompt_is_computed_and_nowhere_else() -> None:
    """A decode endpoint that pulls the prompt looks in its HBM only; one that computes it itself looks below too."""
    rng = np.random.default_rng(1)
    fleet = [endpoint("p", Role.PREFILL), endpoint("none", Role.DECODE), endpoint("host", Role.DECODE)]
    made = world(rng, fleet, blocked_share=0.0, full_share=0.0, tiers=1.0)
    made.cached[:] = [2, 0, 3]
    made.reached[0][:] = [2, 0, 10]
    made.reached[1][:] = [8, 0, 10]
    table = made.table()
    assert made.request.prompt_tokens > 160
    assert table.prefill.below is not None
    assert table.decode.local_below is not None
    assert table.prefill.cached_tokens.tolist() == [128.0]
    assert (table.prefill.below.host_tokens[0], table.prefill.below.ssd_tokens[0]) == (0.0, 96.0)
    assert table.decode.held_tokens.tolist() == [0.0, 48.0]
    assert table.decode.local_cached_tokens.tolist() == [0.0, 160.0]
    assert table.decode.local_below.host_tokens.tolist() == [0.0, 112.0]
    assert table.start_s[0] == pytest.approx(
        table.prefill.wait_s[0] + table.prefill.compute_s[0] + 96 * 327_680 * (1 / 7e9 + 1 / 55e9)
    )
    fetched = [terms[TERMS.index("fetch_kv")] for _, terms in table.locals_explained(np.array([0, 1]))]
    assert fetched == [None, pytest.approx(112 * 327_680 / 55e9)]
    assert table.explained(table.local_row, 0)[1][TERMS.index("fetch_kv")] is None


def test_an_engine_that_loads_slower_than_it_computes_is_priced_as_it_is() -> None:
    """It loads all the same, so its copy makes it dearer than an empty endpoint."""
    rng = np.random.default_rng(2)
    slow = endpoint("slow", Role.BOTH, host_bytes_per_s=1e9)
    made = world(rng, [slow, endpoint("empty", Role.BOTH)], blocked_share=0.0, full_share=0.0, flows_max=0, tiers=1.0)
    made.cached[:] = 0
    made.reached[0][:] = [made.request.blocks, 0]
    made.reached[1][:] = made.reached[0]
    table = made.table()
    assert table.local_ttft_s[0] - made.view.wait_prefill_s[0] > table.local_ttft_s[1] - made.view.wait_prefill_s[1]
