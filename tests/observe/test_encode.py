"""Lines of the decision record: their fields, their size, and that nothing is lost in between."""

import json
import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.domain.decision import TERMS, Decision, InputAge, Observation, PricedPlan
from vicinal.domain.plan import Action, Leg
from vicinal.domain.verdict import Verdict
from vicinal.observe.encode import LINE_BYTES_MAX, encode_decision, encode_observation
from vicinal.observe.lines import DecisionRecord, Line, ObservationRecord
from vicinal.observe.table import rounded

MISSION_FIELDS = {
    "request_id",
    "model_id",
    "tenant_id",
    "selected_worker",
    "candidate_workers",
    "schedule_reason",
    "estimated_compute_cost",
    "estimated_cache_cost",
    "estimated_migration_cost",
    "cache_location",
    "cache_state",
    "gpu_hbm_available",
    "queue_length",
    "priority",
}
ALL = {name: 0.001234567 * (index + 1) for index, name in enumerate(TERMS)}


def decoded(decision: Decision) -> DecisionRecord:
    line = msgspec.json.decode(encode_decision(decision), type=Line)
    assert isinstance(line, DecisionRecord)
    return line


def bytes_without_hashes(decision: Decision) -> int:
    line = encode_decision(decision)
    start = line.index(b',"coarse_hashes":[')
    assert line.endswith(b"]}\n")
    assert line.count(b"\n") == 1
    return start + len(b',"coarse_hashes":[]}\n')


@pytest.mark.mission("B15", "C3")
def test_a_line_has_the_missions_fields_at_its_top(
    make_decision: Callable[..., Decision], make_priced: Callable[..., PricedPlan]
) -> None:
    chosen = make_priced("p0", "d1", Action.HIT, cached=512, moved=100, total=2.5, **ALL)
    line = json.loads(encode_decision(make_decision(chosen=chosen, others=(make_priced("p1", "d1"),))))
    assert line.keys() >= MISSION_FIELDS
    assert line["kind"] == "decision"
    assert line["selected_worker"] == ["p0", "d1"]
    assert line["candidate_workers"] == [["p0", "d1"], ["p1", "d1"]]
    assert line["schedule_reason"] == "p0 holds 8,192 of 8,400 tokens"
    assert line["estimated_compute_cost"] == pytest.approx(
        ALL["wait_prefill"] + ALL["compute_prefill"] + ALL["first_step"], abs=1e-6
    )
    assert line["estimated_cache_cost"] == pytest.approx(ALL["fetch_kv"], abs=1e-6)
    assert line["estimated_migration_cost"] == pytest.approx(ALL["transfer_kv"], abs=1e-6)
    assert (line["cache_location"], line["cache_state"], line["gpu_hbm_available"]) == ("p0", "ready", 900_000)
    assert (line["queue_length"], line["priority"]) == (3, 0)
    assert list(line)[-1] == "coarse_hashes"
    assert line["coarse_hashes"] == [2**64 - 1, 7]


def test_estimated_costs_are_null_where_the_plan_has_no_such_term(
    make_decision: Callable[..., Decision], make_priced: Callable[..., PricedPlan]
) -> None:
    local = decoded(make_decision(chosen=make_priced("d0", "d0", wait_prefill=0.5, compute_prefill=0.25)))
    assert local.estimated_compute_cost == 0.75
    assert local.estimated_migration_cost is None
    unknown = decoded(make_decision(chosen=make_priced(prefill="p0")))
    assert unknown.estimated_compute_cost is None
    assert unknown.predicted_ttft_s is None


def test_the_table_comes_back(make_decision: Callable[..., Decision], make_priced: Callable[..., PricedPlan]) -> None:
    chosen = make_priced("p0", "d0", Action.HIT, cached=512, moved=100, total=1.23456789, **ALL)
    other = make_priced("p1", "d0", total=2.0, wait_prefill=0.0, ttft=1234.5678901)
    record = decoded(
        make_decision(chosen=chosen, others=(other,), counterfactuals=(("nearest", other), ("best_hit", chosen)))
    )
    assert record.winner.total == 1.23457
    assert record.winner.terms == pytest.approx(ALL, abs=5e-7)
    assert (record.winner.cached_tokens, record.winner.moved_tokens) == (512, 100)
    assert record.row(1).terms["ttft"] == pytest.approx(1234.5678901, abs=5e-7)
    assert record.row(1).terms["wait_prefill"] == 0.0
    assert record.row(1).terms["fetch_kv"] is None
    assert record.counterfactuals == {"nearest": 1, "best_hit": 0}
    assert record.counterfactual("nearest") == record.row(1)
    assert record.counterfactual("emptiest_gpu") is None


def test_columns_that_no_row_knows_are_absent(
    make_decision: Callable[..., Decision], make_priced: Callable[..., PricedPlan]
) -> None:
    record = decoded(
        make_decision(chosen=make_priced(ttft=0.5), others=(make_priced("p1", ttft=0.7, wait_prefill=float("inf")),))
    )
    assert record.terms_us == ["ttft"]
    assert record.row(1).terms == {"ttft": 0.7}


def test_a_counterfactual_that_is_a_row_refers_to_it_and_another_adds_one(
    make_decision: Callable[..., Decision], make_priced: Callable[..., PricedPlan]
) -> None:
    chosen, other = make_priced("p0", total=1.0), make_priced("p1", total=2.0)
    equal, elsewhere = make_priced("p1", total=2.0), make_priced("p2", total=3.0)
    same_pair = make_priced("p1", action=Action.MIGRATE, total=4.0)
    record = decoded(
        make_decision(
            chosen=chosen,
            others=(other,),
            counterfactuals=(("a", equal), ("b", elsewhere), ("c", elsewhere), ("d", same_pair)),
        )
    )
    assert record.counterfactuals == {"a": 1, "b": 2, "c": 2, "d": 3}
    assert [record.row(i).total for i in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert record.row(3).action == "migrate"
    assert len(record.rows) == len(record.candidate_workers) == 4


def test_verdicts_are_at_most_eight_and_counted_in_full(
    make_decision: Callable[..., Decision], make_verdict: Callable[[int], Verdict]
) -> None:
    record = decoded(make_decision(verdicts=tuple(make_verdict(n) for n in range(20))))
    assert len(record.verdicts) == 8
    assert record.verdicts[0] == ("p0", "headroom", "needs 525 blocks, 312 are free", "others must finish")
    assert record.verdict_counts == {"headroom": 20}


def test_inputs_keep_their_age_and_unknown_stays_null(make_decision: Callable[..., Decision]) -> None:
    inputs = (InputAge("report p0", "scrape", 0.12345678), InputAge("index", "events", None))
    record = decoded(make_decision(inputs=inputs, worker_queue_length=None, leg=Leg.DECODE))
    assert record.inputs == [("report p0", "scrape", 0.123457), ("index", "events", None)]
    assert record.worker_queue_length is None
    assert record.leg == "decode"


def busy(
    make_decision: Callable[..., Decision],
    make_priced: Callable[..., PricedPlan],
    make_verdict: Callable[[int], Verdict],
    name: str = "{}",
    verdicts: int = 8,
    **changes: Any,
) -> Decision:
    """Winner, eight others and six counterfactuals of which the first is the fifth other; all terms known."""

    def row(number: int) -> PricedPlan:
        terms = {term: (number + 1) * 0.0123456789 * (index + 1) for index, term in enumerate(TERMS)}
        return make_priced(name.format(f"p{number}"), name.format(f"d{number}"), total=number + 0.123456, **terms)

    others = tuple(row(number) for number in range(1, 9))
    named = (("emptiest_gpu", others[4]), *((f"counterfactual_{n}", row(n)) for n in range(20, 25)))
    return make_decision(
        chosen=row(0),
        others=others,
        counterfactuals=named,
        verdicts=tuple(make_verdict(n) for n in range(verdicts)),
        **changes,
    )


@pytest.mark.mission("B15", "C3")
def test_a_full_decision_fits_into_4_kb(
    make_decision: Callable[..., Decision],
    make_priced: Callable[..., PricedPlan],
    make_verdict: Callable[[int], Verdict],
) -> None:
    decision = busy(
        make_decision, make_priced, make_verdict, verdicts=2, coarse_hashes=tuple(range(2**63, 2**63 + 300))
    )
    record = decoded(decision)
    assert len(record.rows) == 14
    assert record.others_left_out == 0
    assert bytes_without_hashes(decision) <= LINE_BYTES_MAX
    assert len(record.coarse_hashes) == 300


def test_what_does_not_fit_is_left_out_from_the_far_end_and_said(
    make_decision: Callable[..., Decision],
    make_priced: Callable[..., PricedPlan],
    make_verdict: Callable[[int], Verdict],
) -> None:
    decision = busy(make_decision, make_priced, make_verdict, name="{}-llama-70b-worker-6f7d8c9b5d-x2lp")
    record = decoded(decision)
    assert bytes_without_hashes(decision) <= LINE_BYTES_MAX
    assert 0 < record.others_left_out < 8
    kept = [record.row(i).prefill.split("-")[0] for i in range(len(record.rows))]
    others = [f"p{n}" for n in range(1, 9)]
    dropped = [name for name in others if name not in kept]
    droppable = [name for name in others if name != "p5"]
    assert dropped == droppable[-len(dropped) :]
    emptiest = record.counterfactual("emptiest_gpu")
    assert emptiest is not None
    assert emptiest.prefill.startswith("p5-")
    assert emptiest.total == 5.12346


def test_when_rows_are_not_enough_verdicts_and_counterfactuals_go_too(
    make_decision: Callable[..., Decision],
    make_priced: Callable[..., PricedPlan],
    make_verdict: Callable[[int], Verdict],
) -> None:
    verbose = Verdict(make_verdict(0).endpoint, make_verdict(0).rule, "r" * 900, "c" * 900)
    decision = busy(make_decision, make_priced, make_verdict, name="{}" + "n" * 200, reason="x" * 5000)
    record = decoded(decision)
    assert bytes_without_hashes(decision) <= LINE_BYTES_MAX
    assert 0 < record.counterfactuals_left_out < 6
    assert next(iter(record.counterfactuals)) == "emptiest_gpu"
    assert record.others_left_out == 7
    assert record.verdicts == []
    assert record.verdict_counts == {"headroom": 8}
    assert len(record.schedule_reason) == 400
    assert record.schedule_reason.endswith("…")
    clipped = decoded(make_decision(verdicts=(verbose,)))
    assert [len(text) for text in clipped.verdicts[0][2:]] == [120, 120]


@given(st.lists(st.floats(allow_nan=False) | st.none(), min_size=1, max_size=40))
def test_rounding_keeps_six_digits_or_a_millionth(values: list[float | None]) -> None:
    for value, result in zip(values, rounded(values), strict=True):
        if value is None:
            assert math.isnan(result)
        elif math.isinf(value):
            assert result == value
        else:
            assert math.isclose(result, value, rel_tol=5.0001e-6, abs_tol=5.0001e-7)
            if 1e-6 <= abs(value) < 1e5:
                assert len(repr(abs(result)).replace(".", "").lstrip("0")) <= 7


def test_an_observation_comes_back(make_observation: Callable[..., Observation]) -> None:
    seen = make_observation(tpot_s=None, moved_tokens=None, reason="a\nb", ttft_s=0.123456789)
    raw = encode_observation(seen)
    assert raw.count(b"\n") == 1
    line = msgspec.json.decode(raw, type=Line)
    assert isinstance(line, ObservationRecord)
    assert (line.request_id, line.ending, line.reason, line.attempts) == ("r1", "done", "a\nb", 1)
    assert (line.ttft_s, line.tpot_s, line.moved_tokens) == (0.123457, None, None)
    assert (line.e2e_s, line.cached_tokens, line.at_s) == (2.5, 8192, 103.0)
