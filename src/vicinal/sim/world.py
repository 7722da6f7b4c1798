"""What is true in a run, as opposed to what the scheduler believes: engines, network, heartbeat and chance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vicinal.domain.endpoint import Endpoint
from vicinal.enginemodel.background import Background
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.flows import Network


@dataclass(frozen=True, slots=True)
class World:
    """`make_engine` gives a fresh engine of an endpoint. `stream` draws what happens by chance outside of engines.

    `background` is others' traffic on the network, if there is any. With more than one of `layers`, a prefill's KV
    leaves layer by layer while it computes (enginemodel/overlap.py).
    The endpoints' reports are spread evenly over `report_spread` of a heartbeat: at 0 all come at the same moment.
    """

    fleet: Sequence[Endpoint]
    make_engine: Callable[[Endpoint], Engine]
    network: Network
    heartbeat_s: float
    stream: np.random.Generator
    background: Background | None = None
    layers: int = 1
    report_spread: float = 1.0
