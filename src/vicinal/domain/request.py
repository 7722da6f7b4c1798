"""A request as the core sees it: sizes, hashes and wishes. Its text and its sockets stay with the driver."""

from dataclasses import dataclass

from vicinal.domain.band import Band
from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId

HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class ServiceClass:
    """What a kind of request cares about; `cost` weighs seconds with it.

    A TTFT objective is the larger of `ttft_floor_s` and `ttft_factor` times this prompt's unloaded TTFT.
    `miss_factor` (kappa) is how many seconds one second past an objective counts in addition.
    `band` says whose turn comes first; a request waits for its turn for `wait_s_max` at most, None for the scheduler's.
    """

    name: str
    ttft_weight: float = 1.0
    tpot_weight: float = 1.0
    ttft_floor_s: float = 1.0
    ttft_factor: float = 4.0
    tpot_objective_s: float = 0.05
    miss_factor: float = 1.0
    band: Band = Band.DEFAULT
    wait_s_max: float | None = None

    def ttft_objective_s(self, unloaded_ttft_s: float) -> float:
        """For a prompt that takes `unloaded_ttft_s` where nobody else is."""
        return max(self.ttft_floor_s, self.ttft_factor * unloaded_ttft_s)


INTERACTIVE = ServiceClass("interactive", band=Band.INTERACTIVE)
BATCH = ServiceClass(
    "batch",
    ttft_weight=0.1,
    tpot_weight=0.1,
    ttft_floor_s=30.0,
    ttft_factor=1.0,
    tpot_objective_s=0.2,
    band=Band.BATCH,
    wait_s_max=600.0,
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request to be placed.

    `block_hashes` is the chain of vicinal's hashes of the prompt's *full* blocks, packed 8 bytes each, little-endian,
    root first (kvindex/hashing.py). It is empty when nothing may be known of the prompt. With `inferred_only` they are
    of stretches of its text (gateway/text_hashes.py): engines never say those in events, so who has them is inferred
    from what was sent where. `prompt_tokens` is an estimate unless `exact`.
    `expected_output_tokens` is a prediction; `max_output_tokens` is what the client allows.
    `splittable` is False when one engine must do both phases (for example n > 1).
    A request with `copy_to` is a copy: nobody wants its answer, it leaves the prompt's KV at that endpoint.
    `priority` orders the requests of one tenant within a band, the smallest first. `gateway_cpu_s` is what reading it
    took: JSON, tokens and hashes.
    """

    id: RequestId
    model: ModelId
    tenant: TenantId
    service: ServiceClass
    prompt_tokens: int
    block_tokens: int
    block_hashes: bytes
    max_output_tokens: int
    expected_output_tokens: int
    priority: int = 0
    streamed: bool = False
    splittable: bool = True
    copy_to: EndpointId | None = None
    exact: bool = True
    inferred_only: bool = False
    gateway_cpu_s: float = 0.0

    @property
    def band(self) -> Band:
        """Nobody waits for a copy."""
        return self.service.band if self.copy_to is None else Band.BACKGROUND

    @property
    def blocks(self) -> int:
        """Full blocks of the prompt."""
        return len(self.block_hashes) // HASH_BYTES

    @property
    def reusable_tokens_max(self) -> int:
        """The most prompt tokens that a cache can save: an engine computes at least the last one itself."""
        return max(0, self.prompt_tokens - 1)
