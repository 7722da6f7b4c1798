"""Max-min fair shares by progressive filling.

All flows grow together until a link is full. The flows on that link are done, with equal shares of it; the others grow
on until the next link is full, and so on. The result is the only allocation in which no flow can get more without
taking from one that has no more than it (Bertsekas & Gallager, Data Networks, 6.5.2): every flow has a bottleneck, a
full link on which nobody gets more than it does.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import inf
from typing import TypeVar

FlowKey = TypeVar("FlowKey", bound=Hashable)


def fair_rates(
    links_of: Mapping[FlowKey, Sequence[int]], capacity_bytes_per_s: Sequence[float]
) -> dict[FlowKey, float]:
    """Each flow's rate in bytes/s. A flow that loads no link is not limited: its rate is infinite."""
    rates: dict[FlowKey, float] = {}
    flows_on: dict[int, dict[FlowKey, None]] = {}
    for flow, links in links_of.items():
        if not links:
            rates[flow] = inf
        for link in links:
            flows_on.setdefault(link, {})[flow] = None
    room = {link: capacity_bytes_per_s[link] for link in flows_on}
    while flows_on:
        link = min(flows_on, key=lambda each: room[each] / len(flows_on[each]))
        share = max(0.0, room[link] / len(flows_on[link]))
        for flow in tuple(flows_on[link]):
            rates[flow] = share
            for other in links_of[flow]:
                room[other] -= share
                del flows_on[other][flow]
                if not flows_on[other]:
                    del flows_on[other]
    return rates
