"""Random worlds for a decision table: a fleet, its load, what it has cached, and a request."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from tests.builders import BLOCK_TOKENS, endpoint, request
from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.state import ClusterState
from vicinal.cluster.view import View
from vicinal.cost.model import CostModel, Masks
from vicinal.cost.table import Table
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.domain.request import Request, ServiceClass
from vicinal.enginemodel.profiles import NAMES, profile
from vicinal.topology.graph import Level, Topology
from vicinal.topology.tree import TreeNetwork, tree_topology

NOW = 50.0
PROMPT_MAX = 6000


@dataclass(frozen=True)
class World:
    """`cached` is blocks per slot in HBM, `reached` with the tiers down to host memory and to SSD, empty for nothing
    there. Everything that a table is made of, and nothing that it computes."""

    topology: Topology
    view: View
    request: Request
    cached: np.ndarray
    masks: Masks
    model: CostModel
    reached: tuple[np.ndarray, ...] = ()

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        return self.view.fleet.endpoints

    def table(self) -> Table:
        return self.model.table(self.request, self.view, self.cached, self.masks, self.reached)

    def decode_table(self, prefill_slot: int) -> Table:
        return self.model.decode_table(self.request, self.view, self.cached, self.masks, prefill_slot)


def world(
    rng: np.random.Generator,
    fleet: Sequence[Endpoint],
    blocked_share: float = 0.15,
    full_share: float = 0.2,
    flows_max: int = 4,
    service: ServiceClass | None = None,
    tiers: float = 0.5,
) -> World:
    """This fleet under random load. `full_share` of the endpoints lack HBM; `flows_max` are on a link. With a chance of
    `tiers` some have more of the prompt below HBM."""
    state = ClusterState(BLOCK_TOKENS, lambda fleet: tree_topology(fleet, network(rng)), FreshnessRule())
    state.change_fleet(fleet)
    model = CostModel(profile)
    model.rebuild(state.fleet, state.topology)
    for _ in range(int(rng.integers(0, 4))):
        model.price.observe(rng.exponential(2.0), rng.exponential(1.0), NOW - rng.exponential(20.0))
        level = Level(int(rng.integers(0, len(Level))))
        model.speeds.observe(level, 1.0, rng.uniform(0.1, 60.0), NOW - rng.exponential(20.0))
    slots = len(fleet)
    wanted = request(
        f"r{rng.integers(1 << 30)}",
        int(rng.integers(1, PROMPT_MAX)),
        output_tokens=int(rng.integers(1, 800)),
        service=service or service_class(rng),
    )
    view = loaded(rng, state.view(NOW), full_share, flows_max)
    cached = cached_blocks(rng, slots, wanted.blocks)
    masks = Masks(*(rng.random(slots) < blocked_share for _ in range(3)))
    host = np.maximum(cached, cached_blocks(rng, slots, wanted.blocks))
    ssd = np.maximum(host, cached_blocks(rng, slots, wanted.blocks))
    reached = (host, ssd) if rng.random() < tiers else ()
    if rng.random() < 0.5:
        view = structs.replace(view, pressure_s=rng.choice([0.0, 0.5, 2.0], slots))
    return World(state.topology, view, wanted, cached, masks, model, reached)


def loaded(rng: np.random.Generator, idle: View, full_share: float, flows_max: int) -> View:
    slots, blocks = len(idle.fleet), idle.fleet.kv_blocks
    sequences = np.where(rng.random(slots) < 0.3, 0.0, rng.integers(0, 60, slots))
    in_use = np.floor(rng.random(slots) * blocks)
    free = np.where(rng.random(slots) < full_share, rng.integers(-50, 200, slots), blocks - in_use)
    return structs.replace(
        idle,
        usable=rng.random(slots) < 0.8,
        wait_prefill_s=np.where(rng.random(slots) < 0.3, 0.0, rng.exponential(0.5, slots)),
        outstanding_prefill_tokens=np.floor(rng.exponential(5000.0, slots)),
        outstanding_decode_tokens=np.floor(rng.exponential(5000.0, slots)),
        decode_sequences=sequences,
        decode_context_tokens=sequences * np.floor(rng.exponential(2000.0, slots)),
        free_blocks=free.astype(np.float64),
        blocks_in_use=in_use,
        link_flows=np.append(rng.integers(0, flows_max + 1, len(idle.link_flows) - 1), 0).astype(np.float64),
    )


def cached_blocks(rng: np.random.Generator, slots: int, blocks: int) -> np.ndarray:
    """Nothing, everything, or some of a prompt, per slot."""
    some = rng.integers(0, blocks + 1, slots)
    return np.choose(rng.integers(0, 3, slots), [np.zeros_like(some), np.full_like(some, blocks), some]).astype(
        np.int32
    )


def service_class(rng: np.random.Generator) -> ServiceClass:
    """Weights of nought included: some classes do not care for one of the phases, or for missed objectives."""
    return ServiceClass(
        "random",
        ttft_weight=float(rng.choice([0.0, 0.1, 1.0, 2.0])),
        tpot_weight=float(rng.choice([0.0, 0.1, 1.0])),
        ttft_floor_s=float(rng.choice([0.0, 0.2, 1.0, 30.0])),
        ttft_factor=float(rng.choice([0.0, 1.0, 4.0])),
        tpot_objective_s=float(rng.choice([0.01, 0.05])),
        miss_factor=float(rng.choice([0.0, 1.0, 3.0])),
    )


def network(rng: np.random.Generator) -> TreeNetwork:
    return TreeNetwork(
        host_bytes_per_s=float(rng.choice([50e9, 450e9])),
        leaf_oversubscription=float(rng.choice([1.0, 8.0])),
        pod_oversubscription=float(rng.choice([1.0, 4.0])),
    )


def mixed_fleet(rng: np.random.Generator, size: int) -> list[Endpoint]:
    """Any roles and profiles; several hosts a leaf, endpoints that share a host, some of Unknown place."""
    return [
        endpoint(
            f"e{n}",
            Role(str(rng.choice(list(Role)))),
            placement=_placement(rng),
            profile=str(rng.choice(NAMES)),
            block_tokens=int(rng.choice([16, 32])),
            kv_blocks=int(rng.integers(500, 50_000)),
            kv_bytes_per_token=int(rng.choice([131_072, 327_680])),
            nic_bytes_per_s=float(rng.choice([1e9, 25e9, 50e9])),
            host_bytes_per_s=float(rng.choice([20e9, 400e9])),
            ssd_bytes_per_s=float(rng.choice([2e9, 12e9])),
        )
        for n in range(size)
    ]


def _placement(rng: np.random.Generator) -> Placement:
    if rng.random() < 0.1:
        return Placement()
    pod, leaf, host = rng.integers(0, 2), rng.integers(0, 3), rng.integers(0, 2)
    return Placement(f"h{pod}{leaf}{host}", f"l{pod}{leaf}", f"p{pod}", "site")


def pools(rng: np.random.Generator, prefills: int, decodes: int, leaves: int = 8) -> list[Endpoint]:
    """Two pools of equal endpoints spread over leaves, four to a host."""
    return [
        endpoint(
            f"{role}{n}",
            role,
            placement=Placement(f"h{leaf}.{rng.integers(0, 4)}", f"l{leaf}", f"p{leaf % 2}", "site"),
        )
        for role, count in ((Role.PREFILL, prefills), (Role.DECODE, decodes))
        for n, leaf in enumerate(rng.integers(0, leaves, count).tolist())
    ]
