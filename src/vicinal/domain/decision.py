"""A decision: the row that was taken, the rows that were not, and what each was expected to cost, in seconds."""

from msgspec import Struct

from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId
from vicinal.domain.passed_by import PassedBy
from vicinal.domain.plan import Leg, Plan
from vicinal.domain.reuse import Reuse
from vicinal.domain.verdict import Verdict

TERMS = (
    "wait_prefill",
    "fetch_kv",
    "compute_prefill",
    "transfer_kv",
    "decode_ready",
    "first_step",
    "ttft",
    "tpot",
    "ttft_cost",
    "tpot_cost",
    "prefill_price",
    "decode_price",
    "link_price",
    "pressure",
)
"""The columns of a decision's rows, in order, in seconds. A term that a policy does not compute is None, not zero."""


class PricedPlan(Struct, frozen=True):
    """A row of the table. `total` is in seconds, prices included, whichever policy chose; `terms` follow `TERMS`."""

    plan: Plan
    total: float
    terms: tuple[float | None, ...]


class InputAge(Struct, frozen=True):
    """Where a number in the table came from and how old it is (MISSION C2). `age_s` is None when it is Unknown."""

    name: str
    source: str
    age_s: float | None


class Decision(Struct, frozen=True):
    """One choice of the scheduler, complete enough to be explained and to be argued with later.

    A request has one decision per choice made for it: a plan at arrival, and, where decode is bound late, a second
    one (`leg == Leg.DECODE`) when its prefill is done. `counterfactuals` maps a name ("emptiest_gpu", "nearest",
    "best_cached", "best_hit", …) to its row. `coarse_hashes` is one chained hash per 512 prompt tokens.
    A scheduler that does not explain itself leaves out everything but the chosen row: what is empty or None then was
    not looked at.
    """

    request_id: RequestId
    attempt: int
    leg: Leg
    at_s: float
    arrived_s: float
    model_id: ModelId
    tenant_id: TenantId
    priority: int
    policy: str
    service: str
    prompt_tokens: int
    expected_output_tokens: int
    block_tokens: int
    chosen: PricedPlan
    others: tuple[PricedPlan, ...]
    counterfactuals: tuple[tuple[str, PricedPlan], ...]
    pairs_considered: int | None
    verdicts: tuple[Verdict, ...]
    inputs: tuple[InputAge, ...]
    prefill_price_s_per_s: float
    queue_length: int
    worker_queue_length: float | None
    gpu_hbm_available_tokens: int | None
    cache_location: EndpointId | None
    cache_state: str | None
    reason: str
    coarse_hashes: tuple[int, ...]


class Observation(Struct, frozen=True):
    """What really happened to a request, beside what the decisions of its last attempt predicted: the one that began
    it, and for `predicted_tpot_s` and `moved_tokens` the last one. Unknown figures are None.

    `prefill` is who prefilled, `ready_tokens` the part of `predicted_cached_tokens` that was ready there at the
    decision (the rest was being made), `reuse` how the prediction came out and why. A copy says where to.

    `band` and `lane` are where it stood while it waited for its turn (`lane` empty: that never mattered), `held_for`
    what kept it there last, `passed_by` who was sent off meanwhile; `detail` is the outcome's."""

    request_id: RequestId
    at_s: float
    ending: str
    reason: str
    attempts: int
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float
    output_tokens: int | None
    predicted_ttft_s: float | None
    predicted_tpot_s: float | None
    prefill_s: float | None
    predicted_prefill_s: float | None
    cached_tokens: int | None
    predicted_cached_tokens: int | None
    moved_tokens: int | None
    held_s: float = 0.0
    prefill: EndpointId | None = None
    ready_tokens: int | None = None
    reuse: Reuse | None = None
    copy_to: EndpointId | None = None
    tenant_id: TenantId = TenantId("")
    band: str = ""
    lane: str = ""
    prompt_tokens: int | None = None
    detail: str = ""
    held_for: str = ""
    passed_by: PassedBy | None = None
