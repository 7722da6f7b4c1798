"""What really happened to a request, beside what was predicted: the pairs that the costs are checked against (C2)."""

from vicinal.domain.decision import TERMS, Decision, Observation
from vicinal.domain.outcome import Outcome
from vicinal.scheduler.tracked import Tracked


def term(decision: Decision | None, name: str) -> float | None:
    """A term of the chosen row; None when there is no decision or the row has no such term."""
    return None if decision is None else decision.chosen.terms[TERMS.index(name)]


def prefill_s(decision: Decision | None) -> float | None:
    """Seconds from dispatch until the chosen row's prefill is done; None when there is no such figure."""
    wait_s, compute_s = term(decision, "wait_prefill"), term(decision, "compute_prefill")
    if wait_s is None or compute_s is None:
        return None
    return wait_s + (term(decision, "fetch_kv") or 0.0) + compute_s


def observation(tracked: Tracked, outcome: Outcome, output_tokens: int | None, now: float) -> Observation:
    first, last = tracked.first_decision, tracked.decision
    ttft_s = None if tracked.first_token_s is None else tracked.first_token_s - tracked.arrived_s
    tpot_s = None
    if tracked.first_token_s is not None and output_tokens is not None and output_tokens > 1:
        tpot_s = (now - tracked.first_token_s) / (output_tokens - 1)
    seen_s = None
    if tracked.prefill_done_s is not None and tracked.dispatched_s is not None:
        seen_s = tracked.prefill_done_s - tracked.dispatched_s
    return Observation(
        request_id=tracked.id,
        at_s=now,
        ending=outcome.ending,
        reason=outcome.reason,
        attempts=tracked.attempt,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        e2e_s=now - tracked.arrived_s,
        output_tokens=output_tokens,
        predicted_ttft_s=term(first, "ttft"),
        predicted_tpot_s=term(last, "tpot"),
        prefill_s=seen_s,
        predicted_prefill_s=prefill_s(first),
        cached_tokens=tracked.cached_tokens,
        predicted_cached_tokens=None if first is None else first.chosen.plan.cached_tokens,
        moved_tokens=None if last is None else last.chosen.plan.moved_tokens,
        held_s=tracked.held_s,
        prefill=None if first is None else first.chosen.plan.prefill,
        ready_tokens=_ready_tokens(tracked),
        reuse=tracked.reuse,
        copy_to=tracked.request.copy_to,
        tenant_id=tracked.request.tenant,
        band=tracked.request.band,
        prompt_tokens=tracked.request.prompt_tokens,
        detail=outcome.detail,
        lane="" if tracked.lane is None else tracked.lane,
        held_for=tracked.held_for if tracked.held_s else "",
        passed_by=tracked.passed_by if tracked.held_s else None,
    )


def _ready_tokens(tracked: Tracked) -> int | None:
    promise = tracked.promise
    return None if promise is None else min(promise.cached_tokens, promise.ready_blocks * tracked.request.block_tokens)
