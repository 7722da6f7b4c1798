"""The figures of a run are exact on a run that is small enough to work out by hand."""

import io

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from vicinal.domain.plan import Leg
from vicinal.domain.request import ServiceClass
from vicinal.replay.answer import Answer, Fate
from vicinal.replay.summary import Spread, Summary, summarise
from vicinal.replay.table import render
from vicinal.wire.stamps import Stamp


def answer(number: int, fate: Fate = Fate.COMPLETED, first_s: float | None = 11.0) -> Answer:
    return Answer(f"r-{number}", 0.0, fate, due_s=10.0, sent_s=10.0, status=200, first_s=first_s, last_s=12.0)


def leg(
    number: int, kind: Leg, arrived: float, first: float, finished: float, cached: int | None, tokens: int
) -> Stamp:
    return Stamp(f"r-{number}", "e", kind, arrived, arrived, first, finished, 1000, cached, 0, tokens)


STAMPS = [
    leg(0, Leg.PREFILL, 0.0, 1.0, 1.0, 500, 1),
    leg(0, Leg.DECODE, 1.0, 1.5, 1.9, 999, 11),
    leg(1, Leg.WHOLE, 2.0, 6.0, 8.0, 100, 11),
    leg(2, Leg.WHOLE, 4.0, 4.5, 4.5, None, 1),
    leg(3, Leg.WHOLE, 5.0, 5.5, 6.0, 700, 9),
]
ANSWERS = [answer(0, first_s=11.0), answer(1, first_s=13.0), answer(2), answer(3, Fate.FAILED), answer(4, Fate.SHED)]


def summary(**changes: object) -> Summary:
    arguments: dict = {
        "policy": "cost",
        "seed": 7,
        "speed": 2.0,
        "unloaded_ttft_s": lambda tokens: tokens / 2000,
        "kv_bytes": {"same_rack": 5_000_000_000},
        "clock_debt": 0.01,
        "decision_us": [100.0, 200.0, 300.0],
    }
    return summarise(ANSWERS, STAMPS, **{**arguments, **changes})


def test_counts_times_and_rates() -> None:
    result = summary()
    assert (result.requests, result.completed, result.failed, result.shed) == (5, 3, 1, 1)
    assert (result.policy, result.seed, result.speed, result.clock_debt, result.valid) == ("cost", 7, 2.0, 0.01, True)
    assert (result.ttft_s.p50, result.ttft_s.mean) == pytest.approx((1.5, (1.5 + 4.0 + 0.5) / 3))
    assert (result.tpot_s.p50, result.tpot_s.mean) == pytest.approx(((0.04 + 0.2) / 2, (0.04 + 0.2) / 2))
    assert result.e2e_s.p50 == pytest.approx(1.9)
    assert result.duration_s == 8.0
    assert result.prefix_hit_rate == pytest.approx(600 / 2000)
    assert (result.decision_us.p50, result.decision_us.p99) == pytest.approx((200.0, 298.0))
    overheads = [11.0 - 10.0 - 1.5 / 2, 13.0 - 10.0 - 4.0 / 2, 11.0 - 10.0 - 0.5 / 2]
    assert result.gateway_overhead_s.p50 == pytest.approx(np.median(overheads))


def test_goodput_counts_those_that_meet_both_objectives() -> None:
    """Request 0 has 1.5 s (limit 2 s) and 40 ms; 1 misses both; 2 has 0.5 s and no second token."""
    assert summary().goodput == pytest.approx(2 / 8)
    assert summary(unloaded_ttft_s=lambda tokens: 0.0).goodput == pytest.approx(1 / 8)
    assert summary(unloaded_ttft_s=lambda tokens: 1.0).goodput == pytest.approx(2 / 8)
    patient = ServiceClass("batch", ttft_floor_s=30.0, tpot_objective_s=0.2)
    assert summary(service=patient).goodput == pytest.approx(3 / 8)


def test_time_in_the_gateways_queue_belongs_to_ttft_and_not_to_overhead() -> None:
    held = summary(held_s={"r-0": 1.0})
    assert held.ttft_s.mean == pytest.approx((2.5 + 4.0 + 0.5) / 3)
    assert held.e2e_s.mean == pytest.approx(1.0 / 3 + (summary().e2e_s.mean or 0))
    assert held.goodput == pytest.approx(1 / 8)
    assert held.gateway_overhead_s.p50 == pytest.approx(0.75)


def test_levels_are_all_there_and_strange_ones_are_refused() -> None:
    assert summary().kv_bytes == {
        "same_device": 0,
        "same_host": 0,
        "same_rack": 5_000_000_000,
        "cross_rack": 0,
        "cross_pod": 0,
        "unknown": 0,
    }
    with pytest.raises(ValueError, match="unknown network level 'rack'"):
        summary(kv_bytes={"rack": 1})


def test_a_run_without_a_result_has_no_figures_rather_than_zeros() -> None:
    result = summarise(
        [answer(0, Fate.FAILED)], [], policy="p", seed=0, speed=1.0, unloaded_ttft_s=float, kv_bytes={}, clock_debt=None
    )
    assert (result.ttft_s, result.tpot_s) == (Spread(), Spread())
    assert (result.goodput, result.prefix_hit_rate, result.duration_s, result.valid) == (None, None, None, None)
    shown(result)


def test_a_late_clock_makes_the_figures_invalid_and_the_table_says_so() -> None:
    late = summary(clock_debt=0.06)
    assert late.valid is False
    assert "not valid" in shown(late)
    assert "not valid" not in shown(summary())


def test_the_json_has_the_names_of_the_contract() -> None:
    names = msgspec.json.decode(msgspec.json.encode(summary()))
    assert {"requests", "completed", "failed", "shed", "policy", "seed", "goodput", "prefix_hit_rate"} <= set(names)
    for spread in ("ttft_s", "tpot_s", "e2e_s"):
        assert set(names[spread]) == {"mean", "p50", "p90", "p99"}
    for tails in ("decision_us", "gateway_overhead_s"):
        assert set(names[tails]) == {"p50", "p99"}
    assert {"kv_bytes", "clock_debt", "speed"} <= set(names)


def test_the_table_shows_the_figures() -> None:
    text = shown(summary())
    for expected in ("cost, seed 7, speed 2", "1,500.0", "3 of 5", "1, 1", "0.25", "30.0%", "KV GB same rack", "5.00"):
        assert expected in text
    assert "cross rack" not in text


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_a_spread_is_ordered_and_within_its_sample(values: list[float]) -> None:
    spread = Spread.of(values)
    assert spread.mean is not None
    assert min(values) <= spread.p50 <= spread.p90 <= spread.p99 <= max(values)
    assert min(values) * (1 - 1e-9) <= spread.mean <= max(values) * (1 + 1e-9)


def shown(result: Summary) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(render(result))
    return console.file.getvalue()
