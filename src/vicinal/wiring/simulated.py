"""A configuration and a workload as a simulated run."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from vicinal.config.cluster import endpoints, services, tree_network
from vicinal.config.fleet import Config
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import ModelId
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.flows import Network
from vicinal.enginemodel.profiles import profile
from vicinal.enginemodel.spec import EngineSpec
from vicinal.sim.faults import Faults
from vicinal.sim.measures import Measures
from vicinal.sim.objectives import Objectives
from vicinal.sim.requests import Foresight, RequestMaker
from vicinal.sim.simulation import Simulation
from vicinal.sim.stability import Backlog
from vicinal.sim.world import World
from vicinal.topology.tree import tree_topology
from vicinal.wiring.core import make_scheduler
from vicinal.workload.arrival import Arrival

WAITING_PER_ENDPOINT = 32
WAITING_MIN = 200


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How a configuration is simulated. `until_unstable`: end a run in which requests pile up for good."""

    foresight: Foresight = Foresight.MEAN
    faults: Faults = field(default_factory=Faults)
    until_unstable: bool = True


def simulation(config: Config, workload: Iterator[Arrival], settings: SimulationSettings) -> Simulation:
    """A run that is ready to begin. The configuration's seed is the run's."""
    fleet = endpoints(config)
    model = config.model
    seed = config.scheduler.seed
    world = World(
        fleet=fleet,
        make_engine=lambda endpoint: _engine(config, endpoint),
        network=Network(tree_topology(fleet, tree_network(config))),
        heartbeat_s=config.scheduler.heartbeat_s,
        stream=np.random.default_rng([seed, 1]),
    )
    fits = [profile(name) for name in {endpoint.profile for endpoint in fleet}]
    return Simulation(
        make_scheduler(config, config.scheduler.heartbeat_s),
        world,
        workload,
        RequestMaker(
            ModelId(model.name),
            model.block_tokens,
            model.tokens_max,
            {service.name: service for service in services(config)},
            settings.foresight,
        ),
        Measures(Objectives(lambda tokens: min(fit.prefill_s(tokens, 0) for fit in fits))),
        settings.faults,
        Backlog(max(WAITING_MIN, WAITING_PER_ENDPOINT * len(fleet))) if settings.until_unstable else None,
    )


def _engine(config: Config, endpoint: Endpoint) -> Engine:
    spec = EngineSpec(
        profile(endpoint.profile),
        endpoint.kv_blocks,
        endpoint.block_tokens,
        sequences_max=endpoint.sequences_max,
        batched_tokens_max=config.emulator.batched_tokens_max,
    )
    return Engine(spec)
