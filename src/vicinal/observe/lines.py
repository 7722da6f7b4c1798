"""The lines of the decision record: one JSON object each, told apart by `kind`, readable by any tool.

A decision line carries the field names of the mission (B15) at its top level. Its table is compact:

    terms_us           the names of the columns that at least one row knows
    rows               [action, cached_tokens, held_tokens, moved_tokens, total, [term, term, ...]], terms in whole
                       microseconds: the winner, the best others, then rows that only a counterfactual names
    candidate_workers  [prefill, decode] of each row, in the same order
    counterfactuals    name -> index of its row

`total` is the cost in seconds, whichever policy chose. A null is Unknown. Other numbers have 6 significant digits.
`coarse_hashes` (unsigned 64-bit, one per 512 prompt tokens) comes last and is not part of a line's 4 KB.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from vicinal.domain.passed_by import PassedBy

WireRow = tuple[str, int, int, int, float | None, list[int | None]]
US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a decision's table. `terms` has the columns that this decision knows, in seconds."""

    prefill: str
    decode: str
    action: str
    cached_tokens: int
    held_tokens: int
    moved_tokens: int
    total: float | None
    terms: dict[str, float | None]

    @property
    def name(self) -> str:
        return self.prefill if self.prefill == self.decode else f"{self.prefill}→{self.decode}"

    def same_plan(self, other: "Row") -> bool:
        return (self.prefill, self.decode, self.action) == (other.prefill, other.decode, other.action)


class DecisionRecord(msgspec.Struct, tag_field="kind", tag="decision", frozen=True, kw_only=True):
    """One choice. Costs, prices, times and ages are seconds; `queue_length` is the scheduler's at that moment.

    `estimated_compute_cost` is wait_prefill + compute_prefill + first_step, `estimated_cache_cost` is fetch_kv,
    `estimated_migration_cost` is transfer_kv, all of the winner; null when Unknown or not part of its plan.
    `verdicts` are [endpoint, rule, reason, cure]; `verdict_counts` counts all of them by rule. Of the winner's cached
    tokens, `predicted_loaded_tokens` lie in tiers below HBM, by tier.
    """

    request_id: str
    model_id: str
    tenant_id: str
    selected_worker: tuple[str, str]
    candidate_workers: list[tuple[str, str]]
    schedule_reason: str
    estimated_compute_cost: float | None
    estimated_cache_cost: float | None
    estimated_migration_cost: float | None
    cache_location: str | None
    cache_state: str | None
    gpu_hbm_available: int | None
    queue_length: int
    priority: int
    attempt: int
    leg: str
    at_s: float
    arrived_s: float
    policy: str
    service: str
    prompt_tokens: int
    expected_output_tokens: int
    block_tokens: int
    worker_queue_length: float | None
    pairs_considered: int | None
    prefill_price_s_per_s: float | None
    predicted_ttft_s: float | None
    predicted_tpot_s: float | None
    predicted_cached_tokens: int
    terms_us: list[str]
    rows: list[WireRow]
    counterfactuals: dict[str, int]
    inputs: list[tuple[str, str, float | None]]
    verdicts: list[tuple[str, str, str, str]]
    verdict_counts: dict[str, int]
    others_left_out: int
    counterfactuals_left_out: int
    version: Literal[1]
    predicted_loaded_tokens: dict[str, int] = {}
    coarse_hashes: list[int]

    def row(self, index: int) -> Row:
        prefill, decode = self.candidate_workers[index]
        action, cached, held, moved, total, terms_us = self.rows[index]
        terms = {
            name: None if value is None else value / US_PER_S
            for name, value in zip(self.terms_us, terms_us, strict=True)
        }
        return Row(prefill, decode, action, cached, held, moved, total, terms)

    @property
    def winner(self) -> Row:
        return self.row(0)

    def counterfactual(self, name: str) -> Row | None:
        index = self.counterfactuals.get(name)
        return None if index is None else self.row(index)


class ObservationRecord(msgspec.Struct, tag_field="kind", tag="observation", frozen=True):
    """What became of a request, beside what its last attempt predicted. Times are seconds; null is Unknown.

    `held_s` is how long the scheduler held it because no endpoint had room. `prefill` is who prefilled, `ready_tokens`
    what of the predicted reuse was ready there at the decision, `reuse` how the prediction came out (self-check.md).
    `band`, `lane`, `held_for` and `passed_by` tell of its wait, `detail` which of several bounds it met.
    """

    request_id: str
    at_s: float
    ending: str
    reason: str
    attempts: int
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    output_tokens: int | None
    predicted_ttft_s: float | None
    predicted_tpot_s: float | None
    prefill_s: float | None
    predicted_prefill_s: float | None
    cached_tokens: int | None
    predicted_cached_tokens: int | None
    moved_tokens: int | None
    held_s: float
    prefill: str | None = None
    ready_tokens: int | None = None
    reuse: str | None = None
    tenant_id: str = ""
    band: str = ""
    lane: str = ""
    prompt_tokens: int | None = None
    detail: str = ""
    held_for: str = ""
    passed_by: PassedBy | None = None


Line = DecisionRecord | ObservationRecord
