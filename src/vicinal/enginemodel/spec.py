"""What an engine is, and what it has counted."""

from dataclasses import dataclass, field

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.tier import Tier
from vicinal.enginemodel.timing import Timing


@dataclass(frozen=True, slots=True)
class LowerTier:
    """Memory below HBM: `blocks` of KV, read at `s_per_block` once a read has its turn (enginemodel/loads.py)."""

    tier: Tier
    blocks: int
    s_per_block: float


def tiers_below(endpoint: Endpoint) -> tuple[LowerTier, ...]:
    """The tiers that an endpoint is said to have. SSD needs host memory, through which it is read."""
    block_bytes = endpoint.block_tokens * endpoint.kv_bytes_per_token
    host = LowerTier(Tier.HOST, endpoint.host_blocks, block_bytes / endpoint.host_bytes_per_s)
    ssd = LowerTier(Tier.SSD, endpoint.ssd_blocks, block_bytes / endpoint.ssd_bytes_per_s)
    if not host.blocks:
        return ()
    return (host, ssd) if ssd.blocks else (host,)


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """`blocks` of `block_tokens` tokens are its HBM for KV. A step computes `batched_tokens_max` tokens at most.

    `async_scheduling`: a step is decided on while the one before it runs, so that the GPU never waits for the
    scheduler; what comes during a step is computed in the step after the next. `lease_s`: how long a finished
    prefill's blocks wait for somebody to pull them (vLLM's kv_lease_duration). `warm_up_s`: how much longer the first
    step with a chunk takes, because kernels are loaded when they are first needed. `below`: the tiers below HBM,
    nearest first, each read through the one before it.
    """

    timing: Timing
    blocks: int
    block_tokens: int
    sequences_max: int = 256
    batched_tokens_max: int = 8192
    async_scheduling: bool = False
    lease_s: float = 30.0
    warm_up_s: float = 0.0
    below: tuple[LowerTier, ...] = ()

    @property
    def ahead(self) -> int:
        """How many steps are decided on while another one runs."""
        return int(self.async_scheduling)

    @property
    def tokens(self) -> int:
        return self.blocks * self.block_tokens


@dataclass(slots=True)
class Counters:
    """Totals since the start, in tokens unless the name says otherwise.

    `prefix_hits_tokens` were in HBM. `external_hits_tokens` came into it: from another engine, or from a tier below,
    of which `loaded_tokens` says how many by tier; `external_queries_tokens` were looked for there.
    """

    preemptions: int = 0
    leases_expired: int = 0
    prefix_queries_tokens: int = 0
    prefix_hits_tokens: int = 0
    external_queries_tokens: int = 0
    external_hits_tokens: int = 0
    computed_tokens: int = 0
    generated_tokens: int = 0
    loaded_tokens: dict[Tier, int] = field(default_factory=dict)


class WorkTooLargeError(ValueError):
    """The work needs more KV than the engine has, even alone. `tokens` is what it needs, `tokens_max` what there is."""

    def __init__(self, work_id: str, tokens: int, tokens_max: int) -> None:
        self.tokens = tokens
        self.tokens_max = tokens_max
        super().__init__(f"work {work_id} needs KV for {tokens} tokens, and this engine holds {tokens_max}")
