"""What an engine says of itself. A figure that it does not give is None: unknown, never zero."""

from msgspec import Struct

from vicinal.domain.ids import EndpointId


class EndpointReport(Struct, frozen=True):
    """One scrape of an engine's metrics, at `scraped_s` on the driver's clock.

    `kv_usage` is the share of KV blocks in use, 0 to 1. Counters are totals since the engine's start.
    `prompt_*_tokens` count prompt tokens by where their KV came from: computed, reused from its own cache, pulled from
    another engine.
    """

    endpoint: EndpointId
    scraped_s: float
    waiting: int | None = None
    running: int | None = None
    kv_usage: float | None = None
    gpu_utilization: float | None = None
    kv_blocks: int | None = None
    block_tokens: int | None = None
    prefix_queries_tokens: float | None = None
    prefix_hits_tokens: float | None = None
    preemptions: float | None = None
    prompt_computed_tokens: float | None = None
    prompt_reused_tokens: float | None = None
    prompt_pulled_tokens: float | None = None
