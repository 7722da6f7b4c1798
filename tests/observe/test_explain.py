"""Explanations: the table, the sentence, and the answer to "why not the emptiest GPU?"."""

import io
from collections.abc import Callable

import msgspec
import pytest
from rich.console import Console

from vicinal.domain.decision import Decision, InputAge, Observation, PricedPlan
from vicinal.domain.reuse import Reuse
from vicinal.observe.comparison import compare
from vicinal.observe.encode import encode_decision, encode_observation
from vicinal.observe.explain import (
    predicted_against_observed,
    reason_sentence,
    table,
    text,
    to_json,
    why_not_emptiest,
)
from vicinal.observe.lines import DecisionRecord, Line, ObservationRecord
from vicinal.observe.read import Case

MakeDecision = Callable[..., Decision]
Costed = Callable[..., PricedPlan]


def recorded(decision: Decision) -> DecisionRecord:
    line = msgspec.json.decode(encode_decision(decision), type=Line)
    assert isinstance(line, DecisionRecord)
    return line


def seen(observation: Observation) -> ObservationRecord:
    line = msgspec.json.decode(encode_observation(observation), type=Line)
    assert isinstance(line, ObservationRecord)
    return line


def answer(make_decision: MakeDecision, winner: PricedPlan, emptiest: PricedPlan, **changes: object) -> str:
    return why_not_emptiest(
        recorded(make_decision(chosen=winner, counterfactuals=(("emptiest_gpu", emptiest),), **changes))
    )


@pytest.mark.mission("C3")
def test_why_not_the_emptiest_gpu(make_decision: MakeDecision, make_costed: Costed) -> None:
    winner = make_costed("p0", "d0", cached=8192, wait_prefill=0.031, compute_prefill=0.02)
    emptiest = make_costed("p3", "d4", wait_prefill=0.0, compute_prefill=0.263)
    assert answer(make_decision, winner, emptiest) == (
        "p3→d4 (the emptiest GPU) would cost 212 ms more: it would save 31 ms of waiting, "
        "but recompute 8,192 cached tokens (+243 ms)."
    )


def test_differences_are_sorted_by_size_and_small_ones_left_out(
    make_decision: MakeDecision, make_costed: Costed
) -> None:
    winner = make_costed("p0", "d0", wait_prefill=0.1, transfer_kv=0.002, tpot_cost=0.02)
    emptiest = make_costed(
        "p1", "d1", moved=9000, wait_prefill=0.0996, transfer_kv=0.3, first_step=0.05, link_price=0.4, tpot_cost=0.0
    )
    assert answer(make_decision, winner, emptiest) == (
        "p1→d1 (the emptiest GPU) would cost 728 ms more: it would save 20 ms of decoding time, but take link time "
        "that others need (+400 ms), move 9,000 more tokens' KV (+298 ms) and have a longer first decode step (+50 ms)."
    )


def test_overlapping_waits_count_only_what_outlasts_the_rest(make_decision: MakeDecision, make_costed: Costed) -> None:
    winner = make_costed("p0", "d0", wait_prefill=0.2, decode_ready=0.15)
    emptiest = make_costed("p1", "d1", wait_prefill=0.0, decode_ready=0.5)
    assert answer(make_decision, winner, emptiest) == (
        "p1→d1 (the emptiest GPU) would cost 300 ms more: it would save 200 ms of waiting, "
        "but wait longer for the decoder (+500 ms)."
    )


def test_weights_and_objectives_are_a_difference_of_their_own(
    make_decision: MakeDecision, make_priced: Callable[..., PricedPlan]
) -> None:
    winner = make_priced("p0", total=0.5, wait_prefill=0.5, ttft=0.5, ttft_cost=0.5)
    emptiest = make_priced("p1", total=2.0, wait_prefill=1.25, ttft=1.25, ttft_cost=2.0)
    said = answer(make_decision, winner, emptiest)
    assert "would cost 1,500 ms more" in said
    assert "wait longer for prefill (+750 ms)" in said
    assert "count more by the weights and objectives of its class (+750 ms)" in said


def test_terms_that_do_not_apply_to_a_local_plan_still_add_up(
    make_decision: MakeDecision, make_costed: Costed, make_priced: Callable[..., PricedPlan]
) -> None:
    local = make_priced("d0", "d0", total=0.3, compute_prefill=0.3, ttft=0.3, ttft_cost=0.3)
    pair = make_costed("p1", "d1", compute_prefill=0.1, transfer_kv=0.4, first_step=0.01)
    record = recorded(make_decision(chosen=local, counterfactuals=(("emptiest_gpu", pair),)))
    emptiest = record.counterfactual("emptiest_gpu")
    assert emptiest is not None
    comparison = compare(record.winner, emptiest)
    assert comparison.seconds == pytest.approx(0.51 - 0.3)
    assert [d.name for d in comparison.differences[:3]] == ["transfer_kv", "compute_prefill", "first_step"]
    assert why_not_emptiest(record).startswith("p1→d1 (the emptiest GPU) would cost 210 ms more")
    assert "d0 (recompute)" in reason_sentence(record)


def test_many_small_differences_are_said_together(make_decision: MakeDecision, make_costed: Costed) -> None:
    winner = make_costed("p0", "d0")
    emptiest = make_costed("p1", "d1", wait_prefill=0.0004, first_step=0.0004, link_price=0.0004, tpot_cost=0.0004)
    assert answer(make_decision, winner, emptiest) == (
        "p1→d1 (the emptiest GPU) would cost 2 ms more: it would lose on smaller terms (+2 ms)."
    )


def test_it_is_honest_when_the_emptiest_was_chosen_or_costs_the_same_or_less(
    make_decision: MakeDecision, make_costed: Costed
) -> None:
    winner = make_costed("p0", "d0", wait_prefill=0.1)
    assert answer(make_decision, winner, winner) == "p0→d0 is the emptiest GPU: it was chosen."
    same = make_costed("p1", "d1", wait_prefill=0.1)
    assert "would cost the same as p0→d0, to half a millisecond." in answer(make_decision, winner, same)
    cheaper = make_costed("p1", "d1", wait_prefill=0.05, compute_prefill=0.01)
    assert answer(make_decision, winner, cheaper) == (
        "p1→d1 (the emptiest GPU) would cost 40 ms less, and was not taken all the same: "
        "it would compute more prefill (+10 ms), but save 50 ms of waiting."
    )


def test_another_policy_is_named_with_its_reason_before_any_seconds(
    make_decision: MakeDecision, make_costed: Costed
) -> None:
    winner, cheaper = make_costed("p0", "d0", wait_prefill=0.1), make_costed("p1", "d1", wait_prefill=0.05)
    assert answer(make_decision, winner, cheaper, policy="round_robin", reason="the next in turn") == (
        "round_robin does not choose by seconds; it took p0→d0: the next in turn. "
        "p1→d1 (the emptiest GPU) would cost 50 ms less: it would save 50 ms of waiting."
    )


def test_it_says_what_the_record_does_not_have(
    make_decision: MakeDecision, make_priced: Callable[..., PricedPlan], make_costed: Costed
) -> None:
    assert why_not_emptiest(recorded(make_decision())) == "The record does not say which was the emptiest GPU."
    assert answer(make_decision, make_costed("p0", "d0"), make_priced("p1")) == (
        "The record does not have the terms of p1→d0 (the emptiest GPU)."
    )


def test_the_reason_is_one_sentence(make_decision: MakeDecision) -> None:
    assert reason_sentence(recorded(make_decision())) == (
        "r1 went to p0→d0 (hit), chosen by cost among 16 pairs, first token expected after 61.0 ms: "
        "p0 holds 8,192 of 8,400 tokens."
    )
    silent = reason_sentence(recorded(make_decision(reason="")))
    assert silent.endswith("it has the smallest total of policy cost.")


def printed(what: object) -> str:
    out = io.StringIO()
    Console(file=out, width=250).print(what)
    return out.getvalue()


@pytest.mark.mission("B15", "C3")
def test_the_table_has_rows_by_terms_in_milliseconds(make_decision: MakeDecision, make_costed: Costed) -> None:
    winner = make_costed("p0", "d0", cached=8192, wait_prefill=0.0315, moved=208)
    other = make_costed("p1", "d0", wait_prefill=1.5)
    shown = printed(
        table(
            recorded(
                make_decision(
                    chosen=winner, others=(other,), counterfactuals=(("nearest", winner), ("emptiest_gpu", other))
                )
            )
        )
    )
    cells = cells_of(shown)
    assert cells["prefill"] == ["p0", "p1"]
    assert cells["decode"] == ["d0", "d0"]
    assert cells["cached tokens"] == ["8,192", "0"]
    assert cells["moved tokens"] == ["208", "0"]
    assert cells["wait prefill"] == ["31.5", "1,500.0"]
    assert cells["total"] == ["31.5", "1,500.0"]
    assert shown.index("winner") < shown.index("emptiest gpu")


def test_the_table_shows_unknown_as_a_dash_and_says_what_it_leaves_out(
    make_decision: MakeDecision, make_priced: Callable[..., PricedPlan]
) -> None:
    rows = make_priced("p0", total=3.0, ttft=0.5), make_priced("p[1]", total=float("inf"), tpot=0.02)
    record = recorded(make_decision(policy="least_loaded", chosen=rows[0], others=rows[1:]))
    cells = cells_of(printed(table(record)))
    assert cells["prefill"] == ["p0", "p[1]"]
    assert (cells["ttft"], cells["tpot"], cells["total"]) == (["500.0", "–"], ["–", "20.0"], ["3,000.0", "–"])
    assert "1 more plans were compared" in printed(table(record, plans_max=1))


def cells_of(shown: str) -> dict[str, list[str]]:
    """The table's cells by the name of their row."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in rows}


def test_predicted_against_observed(make_observation: Callable[..., Observation]) -> None:
    assert predicted_against_observed(seen(make_observation())) == (
        "ended as done; TTFT 80.0 ms (expected 61.0 ms, +31%); TPOT 20.0 ms (expected 21.0 ms, -5%); "
        "prefill 60.0 ms (expected 50.0 ms, +20%); cached tokens 8,192 (expected 8,192)."
    )
    failed = make_observation(
        ending="engine_failed",
        reason="connection refused",
        attempts=3,
        ttft_s=None,
        tpot_s=None,
        predicted_tpot_s=None,
        prefill_s=None,
        predicted_prefill_s=None,
        cached_tokens=None,
        predicted_cached_tokens=None,
    )
    assert predicted_against_observed(seen(failed)) == ("ended as engine_failed (connection refused) after 3 attempts.")


def test_text_and_json_of_a_whole_case(
    make_decision: MakeDecision, make_costed: Costed, make_observation: Callable[..., Observation]
) -> None:
    winner, emptiest = make_costed("p0", "d0", wait_prefill=0.1), make_costed("p1", "d1", compute_prefill=0.3)
    record = recorded(make_decision(chosen=winner, counterfactuals=(("emptiest_gpu", emptiest),)))
    case = Case("r1", [record, recorded(make_decision(attempt=2))], seen(make_observation()))
    parts = text(case)
    assert len(parts) == 2 * 5 + 1
    assert parts[1] == "r1: cost, whole, attempt 1; milliseconds"
    assert parts[0] == reason_sentence(record)
    assert parts[3] == why_not_emptiest(record)
    assert str(parts[-1]).startswith("r1 ended as done")
    plain = msgspec.json.decode(msgspec.json.encode(to_json(case)))
    first = plain["decisions"][0]
    assert plain["request_id"] == "r1"
    assert first["why_not_emptiest"] == why_not_emptiest(record)
    assert first["emptiest_minus_winner_ms"]["compute_prefill"] == 300.0
    assert first["emptiest_minus_winner_ms"]["wait_prefill"] == -100.0
    assert first["rows"][1]["prefill"] == "p1"
    assert first["record"]["request_id"] == "r1"
    assert plain["observation"]["ending"] == "done"
    assert to_json(Case("r2"))["observation"] is None


@pytest.mark.mission("C2", "C3")
def test_the_sources_of_a_decision_and_their_ages(make_decision: MakeDecision) -> None:
    inputs = (
        InputAge("ledger", "own dispatches", 0.0),
        InputAge("prefill_blocks", "engine events", 1.25),
        InputAge("decode_report", "engine metrics", None),
    )
    shown = text(Case("r1", [recorded(make_decision(inputs=inputs))], None))
    assert shown[-1] == (
        "Known then: ledger from own dispatches (current); prefill blocks from engine events (1.2 s old); "
        "decode report from engine metrics (never heard)."
    )


@pytest.mark.mission("B16", "C3")
def test_why_reuse_was_not_as_expected(make_observation: Callable[..., Observation]) -> None:
    told = predicted_against_observed(seen(make_observation(cached_tokens=4096, reuse=Reuse.EVICTED_MEANWHILE)))
    assert "cached tokens 4,096 (expected 8,192, evicted meanwhile)" in told


def test_a_record_of_before_the_self_check_can_be_read(make_observation: Callable[..., Observation]) -> None:
    line = msgspec.json.decode(encode_observation(make_observation()))
    for name in ("prefill", "ready_tokens", "reuse"):
        del line[name]
    old = msgspec.json.decode(msgspec.json.encode(line), type=Line)
    assert isinstance(old, ObservationRecord)
    assert old.reuse is None
