"""`random` and `power_of_two`: what is drawn, how often, and what never is."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.builders import racks
from tests.policies.tables import Situation, engines
from vicinal.cost.pairs import Ranking
from vicinal.policies.pick import draw
from vicinal.policies.power_of_two import PowerOfTwo
from vicinal.policies.random_choice import Random

pytestmark = pytest.mark.mission("B1")
TIMES = 4000


def shares(taken: list[str]) -> dict[str, float]:
    return {name: count / len(taken) for name, count in Counter(taken).items()}


def near(share: float) -> object:
    """Within four standard deviations of that many draws."""
    return pytest.approx(share, abs=4 * (share * (1 - share) / TIMES) ** 0.5)


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 7.0]), min_size=1, max_size=9),
    st.integers(1, 10),
    st.integers(0, 10_000),
)
def test_so_many_different_ones_and_none_of_weight_nought(weights: list[float], count: int, seed: int) -> None:
    drawn = draw(np.array(weights), count, np.random.default_rng(seed))
    assert drawn.sum() == min(count, np.count_nonzero(weights))
    assert not drawn[np.array(weights) == 0].any()


class Last:
    """A stream at its end: what rounding makes of it must still be a position."""

    def random(self) -> float:
        return float(np.nextafter(1.0, 0.0))


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20))
def test_the_end_of_the_stream_is_a_position(weights: list[float]) -> None:
    assert draw(np.array(weights), 1, Last()).argmax() == len(weights) - 1


def test_chances_are_in_proportion_to_weights() -> None:
    chance, weights = np.random.default_rng(1), np.array([1.0, 2.0, 0.0, 5.0])
    firsts = Counter(int(draw(weights, 1, chance).argmax()) for _ in range(TIMES))
    assert {position: count / TIMES for position, count in firsts.items()} == {
        0: near(1 / 8),
        1: near(2 / 8),
        3: near(5 / 8),
    }


def test_of_two_candidates_the_less_loaded() -> None:
    """Of n endpoints of different load, the k-th is taken when it and one of the n - k behind it are drawn."""
    n = 5
    seen = Situation(engines(n), local=True, loads={f"e{k}": k for k in range(1, n + 1)})
    table, chance, made = seen.table(), np.random.default_rng(2), PowerOfTwo()
    taken = [f"e{1 + made.choose_whole(seen.request, table, Ranking(table, 1), chance).j}" for _ in range(TIMES)]
    pairs = list(combinations(range(1, n + 1), 2))
    assert shares(taken) == {f"e{k}": near(sum(k == a for a, _ in pairs) / len(pairs)) for k in range(1, n)}


def test_it_draws_in_both_pools_and_passes_over_the_blocked() -> None:
    loads = {"r1-p1": 3, "r1-p2": 2, "r2-p1": 1, "r1-d1": 1, "r1-d2": 2, "r2-d1": 3}
    seen = Situation(racks(2, 2, 2), loads=loads, blocked={"r2-p2", "r2-d2"})
    assert seen.draws(PowerOfTwo) == {(p, d) for p in ("r2-p1", "r1-p2") for d in ("r1-d1", "r1-d2")}, (
        "the most loaded of three is never the less loaded of two"
    )


def test_two_are_both_drawn_so_the_less_loaded_wins() -> None:
    assert Situation(racks(1, 2, 2), loads={"r1-p1": 1, "r1-d2": 1}).draws(PowerOfTwo) == {("r1-p2", "r1-d1")}


def test_bias_prefers_who_has_the_prefix() -> None:
    """One candidate, so that the draw alone decides: weights 1 + 8 for all of the prompt, 1 + 4 for half, and 1."""
    seen = Situation(engines(4), local=True, cached={"e1": 99, "e2": 50})
    table, chance, made = seen.table(), np.random.default_rng(3), PowerOfTwo(bias=8.0, candidates=1)
    assert table.decode.held_tokens.tolist() == [99 * 16, 50 * 16, 0, 0], "the last block is always computed"
    weights = [1 + 8 * 0.99, 1 + 8 * 0.5, 1.0, 1.0]
    taken = [f"e{1 + made.choose_whole(seen.request, table, Ranking(table, 1), chance).j}" for _ in range(TIMES)]
    assert shares(taken) == {f"e{1 + at}": near(weight / sum(weights)) for at, weight in enumerate(weights)}


@pytest.mark.mission("B12")
def test_bias_prefers_who_has_reported_lately() -> None:
    seen = Situation(engines(3), local=True)
    table = seen.table()
    table.view = structs.replace(table.view, now_s=10.0, reported_s=np.array([9.0, 7.9, -np.inf]))
    chance, made = np.random.default_rng(4), PowerOfTwo(bias=4.0, candidates=1)
    taken = [f"e{1 + made.choose_whole(seen.request, table, Ranking(table, 1), chance).j}" for _ in range(TIMES)]
    assert shares(taken) == {"e1": near(5 / 7), "e2": near(1 / 7), "e3": near(1 / 7)}


@pytest.mark.mission("A1")
def test_random_takes_each_pair_as_often() -> None:
    seen = Situation(racks(1, 3, 2), blocked={"r1-p2"}, loads={"r1-p1": 1e6}, cached={"r1-p1": 100})
    table, chance, made = seen.table(), np.random.default_rng(5), Random()
    taken = [made.choose(seen.request, table, Ranking(table, 1), chance) for _ in range(TIMES)]
    counts = Counter((choice.i, choice.j) for choice in taken)
    assert {pair: count / TIMES for pair, count in counts.items()} == {
        (i, j): near(1 / 4) for i in (0, 2) for j in (0, 1)
    }
    assert all(choice.decode_bound for choice in taken)


@pytest.mark.mission("A1")
def test_random_takes_each_engine_as_often() -> None:
    seen = Situation(engines(4), local=True, loads={"e1": 1e6}, blocked={"e2"})
    table, chance, made = seen.table(), np.random.default_rng(6), Random()
    taken = [f"e{1 + made.choose_whole(seen.request, table, Ranking(table, 1), chance).j}" for _ in range(TIMES)]
    assert shares(taken) == {name: near(1 / 3) for name in ("e1", "e3", "e4")}
