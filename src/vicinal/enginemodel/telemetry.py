"""What switches would report of the modelled network: how much of each level is in use at present.

This is the truth of one moment. Whoever reports it to a scheduler decides how often, and how late it comes.
"""

from dataclasses import dataclass

import numpy as np

from vicinal.enginemodel.flows import Network
from vicinal.topology.graph import Level


@dataclass(frozen=True, slots=True)
class LevelLoad:
    """Shares of the capacity that a level's links have when they are sound: taken by our flows, and by others.

    A scheduler that counts its own transfers adds `others` to them; `flows` would count them twice.
    """

    flows: float
    others: float


def level_loads(network: Network) -> dict[Level, LevelLoad]:
    """The load of each level that has links (`Link.level`): LEAF for interfaces, POD for uplinks of leaves."""
    flows, others = network.flows_bytes_per_s(), network.others_bytes_per_s()
    level = np.array([link.level for link in network.links], dtype=np.int8)
    capacity = np.array([link.bytes_per_s for link in network.links])
    loads: dict[Level, LevelLoad] = {}
    for each in Level:
        if (of_level := level == each).any():
            total = float(capacity[of_level].sum())
            loads[each] = LevelLoad(float(flows[of_level].sum()) / total, float(others[of_level].sum()) / total)
    return loads
