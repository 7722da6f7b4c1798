"""A fleet as a queueing system: the whole simulator, with engines that are servers of one queue.

A server is an endpoint that serves whole requests. Its engine runs one sequence at a time, a prompt takes `SECOND` per
ten thousand tokens and nothing else takes time, and an answer is one token: so the service time of a request is its
prompt's length, and the mean service time is one second. Blocks are larger than prompts, so nothing is ever reused.

What the scheduler is told of `sequences_max` says who queues where. Told the truth (1), it holds requests itself while
nobody is idle: one central queue. Told of more, it sends them off at once and they queue at the engines.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.state import ClusterState
from vicinal.contracts.policy import Policy
from vicinal.cost.model import CostModel
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.request import INTERACTIVE
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.flows import Network
from vicinal.enginemodel.spec import EngineSpec
from vicinal.flow.lanes import LaneRule
from vicinal.flow.made import FlowSettings
from vicinal.policies.registry import policy
from vicinal.scheduler.overload import OverloadSettings
from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.validate import validate
from vicinal.sim.faults import Faults
from vicinal.sim.measures import Measures
from vicinal.sim.objectives import Objectives
from vicinal.sim.requests import Foresight, RequestMaker
from vicinal.sim.simulation import Simulation
from vicinal.sim.stability import Backlog
from vicinal.sim.world import World
from vicinal.topology.tree import TreeNetwork, tree_topology
from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Piece, Prompt, Vocabulary

Floats = NDArray[np.float64]

MEAN_TOKENS = 10_000
"""The length of the mean prompt: fine enough that a length is as good as a real number."""

FIT = Fit("server", 0.0, 1.0 / MEAN_TOKENS, 0.0, 0.0, 0.0, 0.0, source="made for theory")
TREE = TreeNetwork()
VOCABULARY = Vocabulary(0, 1 << 16)
BLOCK_TOKENS = 1 << 20
"""Longer than any prompt."""

ANY = 1 << 12
"""As many sequences as a test ever queues at one engine."""


UNHURRIED = replace(INTERACTIVE, ttft_floor_s=inf)
"""Nobody is ever late, so nobody gives way: first come, first served."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Requests as (n,) arrays: seconds of arrival, ascending, and seconds of service, of whole tokens."""

    at_s: Floats
    service_s: Floats

    def arrivals(self) -> Iterator[Arrival]:
        tokens = np.rint(self.service_s * MEAN_TOKENS).astype(np.int64).tolist()
        for number, (at_s, prompt_tokens) in enumerate(zip(self.at_s.tolist(), tokens, strict=True)):
            yield Arrival(at_s, Prompt((Piece(number, prompt_tokens),), VOCABULARY), 1)

    def __len__(self) -> int:
        return len(self.at_s)


def poisson(count: int, rate_per_s: float, service: str, seed: int) -> Sample:
    """Poisson arrivals; services with mean 1: `exponential`, `fixed`, or `mixed`, a hyperexponential whose square of
    the coefficient of variation is 4."""
    stream = np.random.default_rng(seed)
    at_s = np.cumsum(stream.exponential(1 / rate_per_s, count))
    match service:
        case "exponential":
            tokens = stream.geometric(1 / MEAN_TOKENS, count)
        case "fixed":
            tokens = np.full(count, MEAN_TOKENS)
        case "mixed":
            # Balanced means: p = (1 + sqrt((c2 - 1) / (c2 + 1))) / 2 with rates 2p and 2(1 - p).
            p = (1 + np.sqrt(3 / 5)) / 2
            rates = np.where(stream.random(count) < p, 2 * p, 2 * (1 - p))
            tokens = stream.geometric(rates / MEAN_TOKENS)
        case _:
            raise ValueError(service)
    return Sample(at_s, tokens / MEAN_TOKENS)


@dataclass(frozen=True, slots=True)
class System:
    """`told_sequences` is what the scheduler believes that an engine runs at a time. `held_max` bounds its own queue.
    Every `heartbeat_s` all endpoints report, `report_spread` of it after one another."""

    servers: int = 1
    told_sequences: int = ANY
    policy: str = "round_robin"
    held_max: int = 1 << 30
    heartbeat_s: float = 5.0
    report_spread: float = 1.0
    backlog: Backlog | None = None
    seed: int = 0

    def dice(self) -> np.random.Generator:
        """What its policy draws from."""
        return np.random.default_rng([self.seed, 0])


@dataclass(slots=True)
class Run:
    """Per request that was answered, by time of arrival: seconds of arrival and in the system."""

    simulation: Simulation
    at_s: Floats = field(init=False)
    in_system_s: Floats = field(init=False)

    def __post_init__(self) -> None:
        measures = self.simulation.measures
        at_s, in_system_s = np.array(measures.arrived_s), np.array(measures.e2e_s)
        order = np.argsort(at_s, kind="stable")
        self.at_s, self.in_system_s = at_s[order], in_system_s[order]


def fleet(system: System, block_tokens: int = BLOCK_TOKENS, kv_blocks: int = 2 * ANY) -> list[Endpoint]:
    return [
        Endpoint(
            id=EndpointId(f"server-{number}"),
            url="",
            role=Role.BOTH,
            model=ModelId("m"),
            profile="server",
            kv_blocks=kv_blocks,
            block_tokens=block_tokens,
            kv_bytes_per_token=1,
            model_tokens_max=BLOCK_TOKENS,
            nic_bytes_per_s=1e9,
            placement=Placement(f"h{number}", "l", "p", "s"),
            sequences_max=system.told_sequences,
            hands_off=False,
        )
        for number in range(system.servers)
    ]


def build(
    endpoints: list[Endpoint],
    workload: Iterable[Arrival],
    rule: Policy,
    system: System,
    fit: Fit = FIT,
    network: TreeNetwork = TREE,
    make_scheduler: type[Scheduler] = Scheduler,
) -> Simulation:
    """Scheduler and world of a made-up engine, which no named profile is."""
    block_tokens = endpoints[0].block_tokens
    state = ClusterState(
        block_tokens, lambda fleet: tree_topology(fleet, network), FreshnessRule(heartbeat_s=system.heartbeat_s)
    )
    scheduler = make_scheduler(
        state,
        CostModel(lambda _: fit),
        rule,
        system.dice(),
        SchedulerSettings(
            hold_s_max=inf,
            held_max=system.held_max,
            overload=OverloadSettings(limit="fixed:seconds=1e9"),
            explain=False,
            flow=FlowSettings(lanes=LaneRule(long_share=1.0)),
        ),
    )

    def make_engine(endpoint: Endpoint) -> Engine:
        return Engine(
            EngineSpec(
                fit,
                endpoint.kv_blocks,
                block_tokens,
                sequences_max=1,
                batched_tokens_max=BLOCK_TOKENS,
                lease_s=inf,
            )
        )

    world = World(
        fleet=endpoints,
        make_engine=make_engine,
        network=Network(tree_topology(endpoints, network)),
        heartbeat_s=system.heartbeat_s,
        stream=np.random.default_rng([system.seed, 1]),
        report_spread=system.report_spread,
    )
    requests = RequestMaker(ModelId("m"), block_tokens, BLOCK_TOKENS, {UNHURRIED.name: UNHURRIED}, Foresight.KNOWN)
    measures = Measures(Objectives(lambda tokens: fit.prefill_s(tokens, 0)))
    return Simulation(scheduler, world, iter(workload), requests, measures, Faults(), system.backlog)


def run(sample: Sample, system: System, make_scheduler: type[Scheduler] = Scheduler) -> Run:
    """Run to the end; a run that was not cut short leaves nothing reserved."""
    rule = policy(system.policy)
    simulation = build(fleet(system), sample.arrivals(), rule, system, make_scheduler=make_scheduler)
    simulation.run(lambda _arrived, _now: None)
    if simulation.unstable is None:
        validate(simulation.scheduler)
        assert not simulation.scheduler.requests
    return Run(simulation)
