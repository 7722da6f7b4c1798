"""Decisions and observations become lines, fast enough to write every one of them (aim: 50 µs and 4 KB).

A line that would be longer than `LINE_BYTES_MAX` loses its farthest other rows first (those that no counterfactual
names), then its verdicts (their counts stay), then counterfactuals from the last on; it says how many.
"""

import msgspec

from vicinal.domain.decision import TERMS, Decision, Observation, PricedPlan
from vicinal.domain.outcome import DETAIL_CHARS_MAX
from vicinal.domain.tier import Tier
from vicinal.observe.lines import DecisionRecord, ObservationRecord
from vicinal.observe.table import Table, rounded, rows_of, table_of

LINE_BYTES_MAX = 4096
"""Of a decision line, its newline included, its coarse hashes not."""

VERDICTS_MAX = 8
_TEXT_MAX = 400
_VERDICT_TEXT_MAX = 120
_HELD_FOR_MAX = 200
_ROW_BYTES = 110
"""Of a typical row without its names: a guess at how many rows to leave out."""

_EMPTY_HASHES = b"[]}"
_COLUMN = {name: index for index, name in enumerate(TERMS)}

_encode = msgspec.json.Encoder().encode


def encode_decision(decision: Decision) -> bytes:
    """One line, newline included."""
    verdicts = VERDICTS_MAX
    table = table_of(decision, len(decision.counterfactuals))
    body = _encode(_record(decision, table, verdicts))
    row_bytes = _ROW_BYTES + len(decision.chosen.plan.prefill) + len(decision.chosen.plan.decode)
    while (excess := len(body) + 1 - LINE_BYTES_MAX) > 0:
        if not table.drop(1 + excess // row_bytes):
            if verdicts:
                verdicts = 0
            elif table.named:
                # Its others would come back with a new table, and did not fit before.
                table = table_of(decision, len(table.named) - 1)
                table.drop(len(decision.others))
            else:
                break
        body = _encode(_record(decision, table, verdicts))
    return body[: -len(_EMPTY_HASHES)] + _encode(decision.coarse_hashes) + b"}\n"


def encode_observation(seen: Observation) -> bytes:
    """One line, newline included."""
    ttft, tpot, e2e, p_ttft, p_tpot, prefill, p_prefill, held = rounded(
        (
            seen.ttft_s,
            seen.tpot_s,
            seen.e2e_s,
            seen.predicted_ttft_s,
            seen.predicted_tpot_s,
            seen.prefill_s,
            seen.predicted_prefill_s,
            seen.held_s,
        )
    )
    record = ObservationRecord(
        request_id=seen.request_id,
        at_s=round(seen.at_s, 6),
        ending=seen.ending,
        reason=_clipped(seen.reason, _TEXT_MAX),
        attempts=seen.attempts,
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=e2e,
        output_tokens=seen.output_tokens,
        predicted_ttft_s=p_ttft,
        predicted_tpot_s=p_tpot,
        prefill_s=prefill,
        predicted_prefill_s=p_prefill,
        cached_tokens=seen.cached_tokens,
        predicted_cached_tokens=seen.predicted_cached_tokens,
        moved_tokens=seen.moved_tokens,
        held_s=held,
        prefill=seen.prefill,
        ready_tokens=seen.ready_tokens,
        reuse=seen.reuse,
        tenant_id=seen.tenant_id,
        band=seen.band,
        lane=seen.lane,
        prompt_tokens=seen.prompt_tokens,
        detail=_clipped(seen.detail, DETAIL_CHARS_MAX),
        held_for=_clipped(seen.held_for, _HELD_FOR_MAX),
        passed_by=seen.passed_by,
    )
    return _encode(record) + b"\n"


def _record(decision: Decision, table: Table, verdicts: int) -> DecisionRecord:
    win, plans = decision.chosen, table.plans
    values = [
        _sum(win, "wait_prefill", "compute_prefill", "first_step"),
        win.terms[_COLUMN["fetch_kv"]],
        win.terms[_COLUMN["transfer_kv"]],
        win.terms[_COLUMN["ttft"]],
        win.terms[_COLUMN["tpot"]],
        decision.prefill_price_s_per_s,
        decision.worker_queue_length,
        *[given.age_s for given in decision.inputs],
        *[priced.total for priced in plans],
    ]
    compute, fetch, transfer, ttft, tpot, price, worker_queue, *rest = rounded(values)
    ages, totals = rest[: len(decision.inputs)], rest[len(decision.inputs) :]
    names, rows = rows_of(plans, totals)
    counts: dict[str, int] = {}
    for verdict in decision.verdicts:
        counts[verdict.rule] = counts.get(verdict.rule, 0) + 1
    return DecisionRecord(
        request_id=decision.request_id,
        model_id=decision.model_id,
        tenant_id=decision.tenant_id,
        selected_worker=(win.plan.prefill, win.plan.decode),
        candidate_workers=[(priced.plan.prefill, priced.plan.decode) for priced in plans],
        schedule_reason=_clipped(decision.reason, _TEXT_MAX),
        estimated_compute_cost=compute,
        estimated_cache_cost=fetch,
        estimated_migration_cost=transfer,
        cache_location=decision.cache_location,
        cache_state=decision.cache_state,
        gpu_hbm_available=decision.gpu_hbm_available_tokens,
        queue_length=decision.queue_length,
        priority=decision.priority,
        attempt=decision.attempt,
        leg=decision.leg,
        at_s=round(decision.at_s, 6),
        arrived_s=round(decision.arrived_s, 6),
        policy=decision.policy,
        service=decision.service,
        prompt_tokens=decision.prompt_tokens,
        expected_output_tokens=decision.expected_output_tokens,
        block_tokens=decision.block_tokens,
        worker_queue_length=worker_queue,
        pairs_considered=decision.pairs_considered,
        prefill_price_s_per_s=price,
        predicted_ttft_s=ttft,
        predicted_tpot_s=tpot,
        predicted_cached_tokens=win.plan.cached_tokens,
        terms_us=names,
        rows=rows,
        counterfactuals=dict(table.named),
        inputs=[(given.name, given.source, age) for given, age in zip(decision.inputs, ages, strict=True)],
        verdicts=[
            (v.endpoint, v.rule, _clipped(v.reason, _VERDICT_TEXT_MAX), _clipped(v.cure, _VERDICT_TEXT_MAX))
            for v in decision.verdicts[:verdicts]
        ],
        verdict_counts=counts,
        others_left_out=table.left_out,
        counterfactuals_left_out=len(decision.counterfactuals) - len(table.named),
        version=1,
        predicted_loaded_tokens={
            tier.value: tokens
            for tier, tokens in ((Tier.HOST, win.plan.from_host_tokens), (Tier.SSD, win.plan.from_ssd_tokens))
            if tokens
        },
        coarse_hashes=[],
    )


def _sum(priced: PricedPlan, *names: str) -> float | None:
    """Of the terms that apply to the row; None when none is known."""
    known = [value for name in names if (value := priced.terms[_COLUMN[name]]) is not None]
    return sum(known) if known else None


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
