"""A configuration as the values that the core and the drivers work with. TOML's units become SI here and only here."""

from pathlib import Path

import vicinal
from vicinal.config.fleet import Config
from vicinal.config.fleet import Endpoint as Entry
from vicinal.config.tenants import Tenant as TenantEntry
from vicinal.domain.capabilities import CAPABILITIES
from vicinal.domain.endpoint import Endpoint, HandOff, Placement, Role
from vicinal.domain.ids import EndpointId, ModelId, TenantId
from vicinal.domain.request import BATCH, INTERACTIVE, ServiceClass
from vicinal.flow.quotas.rules import Quota, Rules
from vicinal.flow.tenants import Tenant, Tenants
from vicinal.topology.fabric import Parallel
from vicinal.topology.tree import TreeNetwork

PACKAGED_TOKENIZER = "tiny"


def endpoints(config: Config) -> tuple[Endpoint, ...]:
    """The fleet, in the order of the file. `config` has passed the checks of checks.py."""
    return tuple(_endpoint(config, entry) for entry in config.endpoint)


def tree_network(config: Config) -> TreeNetwork:
    """The network's figures, in seconds and bytes per second."""
    network = config.network
    return TreeNetwork(
        host_bytes_per_s=network.host_gbytes_per_s * 1e9,
        host_latency_s=network.host_latency_us / 1e6,
        leaf_latency_s=network.leaf_latency_us / 1e6,
        spine_latency_s=network.spine_latency_us / 1e6,
        across_latency_s=network.across_latency_us / 1e6,
        leaf_oversubscription=network.leaf_oversubscription,
        pod_oversubscription=network.pod_oversubscription,
        uplink_bytes_per_s={name: rate * 1e9 for name, rate in network.uplinks_gbytes_per_s.items()},
    )


def parallel(config: Config) -> Parallel:
    """What of the network lies in parallel. The scheduler does not ask for it: it believes in the tree."""
    return Parallel(config.network.rails, config.network.spines, config.scheduler.seed)


def services(config: Config) -> tuple[ServiceClass, ...]:
    """The kinds of request; `interactive` and `batch` where the file names none. The first is the default kind."""
    if not config.service:
        return (INTERACTIVE, BATCH)
    return tuple(
        ServiceClass(
            name=service.name,
            ttft_weight=service.ttft_weight,
            tpot_weight=service.tpot_weight,
            ttft_floor_s=service.ttft_floor_s,
            ttft_factor=service.ttft_factor,
            tpot_objective_s=service.tpot_objective_s,
            miss_factor=service.miss_factor,
            band=service.band,
            wait_s_max=service.wait_s_max,
        )
        for service in config.service
    )


def group_of_tenant(config: Config) -> dict[TenantId, str]:
    """The trust group of each tenant that is named in one."""
    return {TenantId(tenant): group.name for group in config.trust_group for tenant in group.tenants}


def tenants(config: Config) -> Tenants:
    """What is said of tenants. One of whom no quota is given has none."""
    return Tenants([_tenant(entry) for entry in config.tenant])


def tokenizer_folder(config: Config) -> Path | None:
    """The folder of the model's tokenizer; None when the configuration has none."""
    if config.model.tokenizer == PACKAGED_TOKENIZER:
        return Path(vicinal.__file__).parent / "data" / "tiny-model"
    return Path(config.model.tokenizer) if config.model.tokenizer else None


def block_tokens(config: Config, entry: Entry) -> int:
    return entry.block_tokens or config.model.block_tokens


def kv_bytes_per_token(config: Config, entry: Entry) -> int:
    return entry.kv_bytes_per_token or config.model.kv_bytes_per_token


def kv_blocks(config: Config, entry: Entry) -> int:
    """Blocks of KV in an endpoint's HBM; 0 when its tokens do not make one block."""
    return entry.kv_blocks or (entry.kv_tokens or 0) // block_tokens(config, entry)


def hand_off(entry: Entry) -> HandOff | None:
    """How an endpoint hands off, None for not at all. In its dialect's own way that is the first one it knows; an
    engine that is not run as one half of a pair then hands nothing off where halves need each other."""
    if isinstance(entry.hand_off, HandOff):
        return entry.hand_off
    known = CAPABILITIES[entry.dialect].hand_offs
    if not entry.hand_off or not known:
        return None
    return None if known[0].halves_need_each_other and entry.role is Role.BOTH else known[0]


def _tenant(entry: TenantEntry) -> Tenant:
    figures = {quota.value: getattr(entry, quota.value, None) for quota in Quota}
    limited = any(figure is not None for figure in figures.values())
    return Tenant(
        name=TenantId(entry.name),
        model=None if entry.model is None else ModelId(entry.model),
        weight=entry.weight,
        rules=Rules(**figures, burst_s=entry.burst_s) if limited else None,
        reserved_endpoints=tuple(map(EndpointId, entry.reserved_endpoints)),
        reserved_share=entry.reserved_share,
    )


def _endpoint(config: Config, entry: Entry) -> Endpoint:
    model = config.model
    kind = hand_off(entry)
    return Endpoint(
        id=EndpointId(entry.id),
        url=entry.url.rstrip("/"),
        role=entry.role,
        model=ModelId(entry.model or model.name),
        profile=entry.profile or model.profile,
        kv_blocks=kv_blocks(config, entry),
        block_tokens=block_tokens(config, entry),
        kv_bytes_per_token=kv_bytes_per_token(config, entry),
        model_tokens_max=entry.tokens_max or model.tokens_max,
        nic_bytes_per_s=(entry.nic_gbytes_per_s or config.network.nic_gbytes_per_s) * 1e9,
        placement=Placement(entry.host, entry.leaf, entry.pod, entry.site),
        sequences_max=entry.sequences_max,
        dialect=entry.dialect,
        events_url=entry.events_url,
        replay_url=entry.replay_url,
        hands_off=kind is not None,
        hand_off=kind or HandOff.NIXL,
        bootstrap_port=entry.bootstrap_port,
        data_parallel_rank=entry.data_parallel_rank,
        host_blocks=entry.host_tokens // block_tokens(config, entry),
        ssd_blocks=entry.ssd_tokens // block_tokens(config, entry),
        host_bytes_per_s=entry.host_gbytes_per_s * 1e9,
        ssd_bytes_per_s=entry.ssd_gbytes_per_s * 1e9,
    )
