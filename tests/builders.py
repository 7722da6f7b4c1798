"""Small fleets and requests that many tests need."""

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.state import ClusterState
from vicinal.cost.model import CostModel
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.domain.events import EndpointReported, TopologyChanged
from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import INTERACTIVE, Request, ServiceClass
from vicinal.enginemodel.profiles import profile
from vicinal.flow.tenants import Tenant, Tenants
from vicinal.kvindex.hashing import chain
from vicinal.policies.registry import policy
from vicinal.scheduler.overload import OverloadSettings
from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.topology.tree import TreeNetwork, tree_topology

MODEL = ModelId("llama-3.1-70b")
PROFILE = "llama-3.1-70b-h100-tp8-vllm"
BLOCK_TOKENS = 16


def endpoint(name: str, role: Role, leaf: str = "r1", **changes: object) -> Endpoint:
    """One endpoint of the default cluster, on a host of its own."""
    facts: dict[str, object] = {
        "id": EndpointId(name),
        "url": f"http://{name}",
        "role": role,
        "model": MODEL,
        "profile": PROFILE,
        "kv_blocks": 75_000,
        "block_tokens": BLOCK_TOKENS,
        "kv_bytes_per_token": 327_680,
        "model_tokens_max": 131_072,
        "nic_bytes_per_s": 25e9,
        "placement": Placement(host=f"host-{name}", leaf=leaf, pod="pod", site="site"),
    }
    return Endpoint(**(facts | changes))  # type: ignore[arg-type]


def racks(count: int = 2, prefills: int = 2, decodes: int = 2, **changes: object) -> list[Endpoint]:
    """`count` racks of so many prefill and decode endpoints: r1-p1, r1-d1, …; `changes` are to each of them."""
    return [
        endpoint(f"r{rack}-{letter}{n}", role, leaf=f"r{rack}", **changes)
        for rack in range(1, count + 1)
        for letter, role, number in (("p", Role.PREFILL, prefills), ("d", Role.DECODE, decodes))
        for n in range(1, number + 1)
    ]


def scheduler(
    endpoints: Sequence[Endpoint],
    policy_name: str = "cost",
    network: TreeNetwork | None = None,
    settings: SchedulerSettings | None = None,
    freshness: FreshnessRule | None = None,
    seed: int = 0,
    reported: bool = True,
    tenants: Sequence[Tenant] = (),
) -> Scheduler:
    """A scheduler whose fleet is known and has reported, idle, at time 0."""
    tree = network or TreeNetwork(leaf_oversubscription=8.0)
    state = ClusterState(
        BLOCK_TOKENS, lambda fleet: tree_topology(fleet, tree), freshness or FreshnessRule(heartbeat_s=1e6)
    )
    made = Scheduler(
        state,
        CostModel(profile),
        policy(policy_name),
        np.random.default_rng(seed),
        replace(settings or SchedulerSettings(), tenants=Tenants(tenants)),
    )
    made.handle(TopologyChanged(tuple(endpoints)), 0.0)
    if reported:
        for one in endpoints:
            made.handle(EndpointReported(report(one.id)), 0.0)
    return made


def limited(seconds: float) -> SchedulerSettings:
    """Endpoints are saturated when so many seconds of prefill wait there."""
    return SchedulerSettings(overload=OverloadSettings(limit=f"fixed:seconds={seconds:g}"))


def report(endpoint_id: EndpointId, at_s: float = 0.0, **figures: float) -> EndpointReport:
    """An idle report unless `figures` say otherwise."""
    idle: dict[str, float] = {"waiting": 0, "running": 0, "kv_usage": 0.0}
    return EndpointReport(endpoint_id, at_s, **(idle | figures))  # type: ignore[arg-type]


def tokens(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, 1024, count, dtype=np.uint32)


def request(
    name: str,
    prompt: np.ndarray | int = 4096,
    output_tokens: int = 100,
    service: ServiceClass = INTERACTIVE,
    **changes: object,
) -> Request:
    """A request; `prompt` is its token ids, or how many to draw (seeded by the name)."""
    ids = tokens(prompt, zlib.crc32(name.encode())) if isinstance(prompt, int) else prompt
    facts: dict[str, object] = {
        "id": RequestId(name),
        "model": MODEL,
        "tenant": TenantId("default"),
        "service": service,
        "prompt_tokens": len(ids),
        "block_tokens": BLOCK_TOKENS,
        "block_hashes": chain(ids.tobytes(), BLOCK_TOKENS),
        "max_output_tokens": output_tokens,
        "expected_output_tokens": output_tokens,
    }
    return Request(**(facts | changes))  # type: ignore[arg-type]
