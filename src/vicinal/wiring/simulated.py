"""A cluster, a workload and a policy as a simulated run."""

import time
from collections.abc import Callable, Iterator
from enum import StrEnum

import msgspec
import numpy as np
from msgspec.structs import replace

from vicinal.config.cluster import endpoints, parallel, services, tree_network
from vicinal.config.fleet import Config
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import ModelId
from vicinal.enginemodel.background import Background, OnOff
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.flows import Network
from vicinal.enginemodel.grid import truth
from vicinal.enginemodel.noise import Noise
from vicinal.enginemodel.profiles import profile
from vicinal.enginemodel.spec import EngineSpec, tiers_below
from vicinal.enginemodel.timing import Timing
from vicinal.sim.faults import Faults
from vicinal.sim.measures import Measures
from vicinal.sim.objectives import Objectives
from vicinal.sim.requests import Foresight, RequestMaker
from vicinal.sim.result import Result, result
from vicinal.sim.simulation import Progress, Simulation
from vicinal.sim.stability import Backlog
from vicinal.sim.timeline import Sampler
from vicinal.sim.world import World
from vicinal.topology.fabric import Fabric
from vicinal.topology.graph import Level
from vicinal.topology.tree import tree_topology
from vicinal.wiring.core import make_scheduler
from vicinal.workload.arrival import Arrival
from vicinal.workload.returns import ONCE, Returns

WAITING_PER_ENDPOINT = 32
WAITING_MIN = 200
CURVE_POINTS = 201

_WORLD, _ENGINE, _TRAFFIC = 1, 2, 3
"""Streams of one seed: what happens by chance is not drawn from what the policy draws from."""


class Truth(StrEnum):
    """What engines really take: what was measured, or exactly what the scheduler believes."""

    GRID = "grid"
    FIT = "fit"


class Physics(msgspec.Struct, frozen=True, kw_only=True):
    """What is true in a run and what is known of it.

    `noise` is the standard deviation of the logarithm of a step's duration. Others take `background` of every uplink
    half of the time, `background_s` at a stretch. With more than one of `layers`, KV leaves layer by layer during the
    prefill. `until_unstable` ends a run in which requests pile up for good. `returns` says how refused clients come
    back. With a `window_s` the result has a timeline.
    """

    truth: Truth = Truth.GRID
    noise: float = 0.05
    foresight: Foresight = Foresight.MEAN
    background: float = 0.0
    background_s: float = 10.0
    layers: int = 1
    faults: Faults = msgspec.field(default_factory=Faults)
    until_unstable: bool = True
    returns: Returns = ONCE
    window_s: float | None = None


class Outcome(msgspec.Struct, frozen=True):
    """A run's result, and its TTFTs at evenly spaced quantiles from 0 to 1."""

    result: Result
    ttft_quantiles_s: tuple[float, ...]


def simulation(
    config: Config, workload: Iterator[Arrival], physics: Physics, sampler: Sampler | None = None
) -> Simulation:
    """A run that is ready to begin. The configuration's seed is the run's."""
    fleet = endpoints(config)
    model = config.model
    seed = config.scheduler.seed
    network = Network(Fabric(tree_topology(fleet, tree_network(config)), parallel(config)))
    world = World(
        fleet=fleet,
        make_engine=_maker(config, physics, {endpoint.id: slot for slot, endpoint in enumerate(fleet)}),
        network=network,
        heartbeat_s=config.scheduler.heartbeat_s,
        stream=np.random.default_rng([seed, _WORLD]),
        background=_background(network, physics, seed),
        layers=physics.layers,
    )
    fits = [profile(name) for name in {endpoint.profile for endpoint in fleet}]
    return Simulation(
        make_scheduler(config, config.scheduler.heartbeat_s, explain=False),
        world,
        workload,
        RequestMaker(
            ModelId(model.name),
            model.block_tokens,
            model.tokens_max,
            {service.name: service for service in services(config)},
            physics.foresight,
        ),
        Measures(Objectives(lambda tokens: min(fit.prefill_s(tokens, 0) for fit in fits))),
        physics.faults,
        Backlog(max(WAITING_MIN, WAITING_PER_ENDPOINT * len(fleet))) if physics.until_unstable else None,
        physics.returns,
        sampler,
    )


def simulate(
    config: Config,
    workload: Iterator[Arrival],
    physics: Physics,
    on_progress: Progress = lambda _arrived, _now: None,
) -> Outcome:
    """Run to the end, and say what came of it."""
    sampler = None if physics.window_s is None else Sampler(physics.window_s)
    run = simulation(config, workload, physics, sampler)
    began_s = time.perf_counter()
    run.run(on_progress)
    wall_s = time.perf_counter() - began_s
    timeline = None if sampler is None else sampler.timeline(run.measures)
    said = result(run.measures, config.scheduler.policy, config.scheduler.seed, run.unstable, wall_s, timeline)
    ttft_s = run.measures.ttft_s
    curve = np.quantile(ttft_s, np.linspace(0, 1, CURVE_POINTS)).tolist() if len(ttft_s) else ()
    return Outcome(said, tuple(curve))


def with_policy(config: Config, policy: str, seed: int) -> Config:
    """The same cluster under another policy and seed."""
    return replace(config, scheduler=replace(config.scheduler, policy=policy, seed=seed))


def _background(network: Network, physics: Physics, seed: int) -> Background | None:
    if not physics.background:
        return None
    uplinks = [at for at, link in enumerate(network.links) if link.level >= Level.POD]
    pattern = OnOff(physics.background, physics.background_s, physics.background_s)
    return Background(uplinks, pattern, np.random.default_rng([seed, _TRAFFIC]))


def _maker(config: Config, physics: Physics, slots: dict[str, int]) -> Callable[[Endpoint], Engine]:
    def make(endpoint: Endpoint) -> Engine:
        timing: Timing = (truth if physics.truth is Truth.GRID else profile)(endpoint.profile)
        spec = EngineSpec(
            timing,
            endpoint.kv_blocks,
            endpoint.block_tokens,
            sequences_max=endpoint.sequences_max,
            batched_tokens_max=config.emulator.batched_tokens_max,
            below=tiers_below(endpoint),
        )
        if not physics.noise:
            return Engine(spec)
        stream = np.random.default_rng([config.scheduler.seed, _ENGINE, slots[endpoint.id]])
        return Engine(spec, Noise(physics.noise, stream))

    return make
