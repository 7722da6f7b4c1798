"""The sections that say what tenants may use, and what is kept for them."""

from typing import Annotated

from msgspec import Meta, Struct

from vicinal.config.schema import Count, Name, Seconds

PerSecond = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Tenant(Struct, frozen=True, kw_only=True):
    """What one tenant may use (tenants.md). A quota that is not given is no limit; one that is used up is answered with
    429. Of several sections that fit a request, the one counts that names its tenant, before `*`, and its model."""

    name: Annotated[
        Name,
        Meta(
            description="The tenant, as its key or `server.tenant_header` names it; `default` is who names none. `*`: "
            "each tenant without a section of its own, each by itself."
        ),
    ]
    model: Annotated[
        Name | None, Meta(description="What this is about: requests for that model. Not set: all of them together.")
    ] = None
    weight: Annotated[PerSecond, Meta(description="Its share of the turns while tenants compete for them.")] = 1.0
    burst_s: Annotated[
        Seconds, Meta(description="Of each quota per second, what so many seconds give may be used at once.")
    ] = 10.0
    requests_per_s: Annotated[PerSecond | None, Meta(description="Requests, refused ones not included.")] = None
    tokens_per_s: Annotated[
        PerSecond | None,
        Meta(description="Tokens of prompts and answers; of an answer its expected length until it is over."),
    ] = None
    concurrency_max: Annotated[Count | None, Meta(description="Requests at a time, waiting ones included.")] = None
    hbm_block_seconds_per_s: Annotated[
        PerSecond | None,
        Meta(description="KV blocks that its requests hold in HBM, times the seconds: so many blocks all the time."),
    ] = None
    host_block_seconds_per_s: Annotated[
        PerSecond | None, Meta(description="The same of blocks in host memory, while they are read into HBM.")
    ] = None
    ssd_block_seconds_per_s: Annotated[PerSecond | None, Meta(description="The same of blocks on SSD.")] = None
    copy_bytes_per_s: Annotated[
        PerSecond | None, Meta(description="Bytes of KV that copies of its prefixes move (copies.md).")
    ] = None
    remote_reads_per_s: Annotated[
        PerSecond | None, Meta(description="Requests whose KV one endpoint reads from another, at a hand-off.")
    ] = None
    gateway_cpu_s_per_s: Annotated[
        PerSecond | None,
        Meta(description="Seconds of processors that reading its requests takes: JSON, templates, tokens, hashes."),
    ] = None
    kept_blocks_max: Annotated[
        Count | None,
        Meta(
            description="KV blocks that its prompts brought and the index knows. Above it its oldest go first, "
            "and its copies are refused; its requests are not."
        ),
    ] = None
    kept_block_groups_max: Annotated[
        Count | None,
        Meta(description="The same of the pieces in which they came, one for each prompt with new blocks."),
    ] = None
    reserved_endpoints: Annotated[
        tuple[str, ...], Meta(description="Endpoints, by id, for this tenant and whoever else names them, only.")
    ] = ()
    reserved_share: Annotated[
        Share,
        Meta(
            description="Share of each endpoint's sequences and HBM: of what this tenant does not use of it, others "
            "take nothing."
        ),
    ] = 0.0
