"""What is true in a run, as opposed to what the scheduler believes: engines, network, heartbeat and chance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vicinal.domain.endpoint import Endpoint
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.flows import Network


@dataclass(frozen=True, slots=True)
class World:
    """`make_engine` gives a fresh engine of an endpoint. `stream` draws what happens by chance outside of engines."""

    fleet: Sequence[Endpoint]
    make_engine: Callable[[Endpoint], Engine]
    network: Network
    heartbeat_s: float
    stream: np.random.Generator
