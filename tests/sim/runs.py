"""Small simulated runs for tests."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from vicinal.config.fleet import Config
from vicinal.config.made import made_cluster
from vicinal.scheduler.validate import validate
from vicinal.sim.simulation import Simulation
from vicinal.wiring.simulated import Physics, Truth, simulation, with_policy
from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Piece, Prompt, Vocabulary

VOCABULARY = Vocabulary(0, 1 << 16)
EXACT = Physics(truth=Truth.FIT, noise=0.0, until_unstable=False)
"""Engines take exactly what the scheduler believes."""


def prompt(*pieces: tuple[int, int]) -> Prompt:
    """Pieces as (stream, tokens)."""
    return Prompt(tuple(Piece(stream, tokens) for stream, tokens in pieces), VOCABULARY)


def poisson(
    count: int, rate_per_s: float, seed: int = 0, prompt_tokens: int = 2048, output_tokens: int = 50
) -> Iterator[Arrival]:
    """Requests that share a system prompt of one block row and nothing else."""
    stream = np.random.default_rng(seed)
    at_s = 0.0
    for number in range(count):
        at_s += float(stream.exponential(1 / rate_per_s))
        yield Arrival(at_s, prompt((0, 512), (1 + number, prompt_tokens - 512)), output_tokens, tenant=f"t{number % 3}")


def run(
    workload: Iterable[Arrival],
    *,
    cluster: str = "default:block_tokens=64",
    policy: str = "cost",
    seed: int = 0,
    physics: Physics = EXACT,
    **more: Any,
) -> Simulation:
    """Run to the end; a run that was not cut short leaves nothing reserved."""
    return run_on(with_policy(made_cluster(cluster, more), policy, seed), workload, physics)


def run_on(config: Config, workload: Iterable[Arrival], physics: Physics) -> Simulation:
    """Likewise, on a cluster that is made already."""
    made = simulation(config, iter(workload), physics)
    made.run(lambda _arrived, _now: None)
    if made.unstable is None:
        validate(made.scheduler)
        assert not made.scheduler.requests
        for server in made.servers.values():
            if server.engine is not None:
                server.engine.advance(made.now_s + 1e4)
                assert server.engine.idle
                assert server.engine.memory.pool.used == 0
    return made
