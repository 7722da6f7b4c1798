"""Max-min fair shares by progressive filling.

All flows grow together until a link is full. The flows on that link are done, with equal shares of it; the others grow
on until the next link is full, and so on. The result is the only allocation in which no flow can get more without
taking from one that has no more than it (Bertsekas & Gallager, Data Networks, 6.5.2): every flow has a bottleneck, a
full link on which nobody gets more than it does.

Most links of a network carry one flow or none. The former only limit that flow, so they need no book-keeping: each flow
has a limit of its own, and only links with several flows are filled. The next of them to be full comes from a heap.
What a link could give each of its growing flows never falls while other flows are done, because a flow that is done
took no more than that of any of its links; so a figure in the heap is a lower bound, and the least of them is right
once it is found unchanged.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import TypeVar

FlowKey = TypeVar("FlowKey", bound=Hashable)


class _SharedLink:
    """A link with several flows while it is filled: what is left of it, for how many that still grow."""

    __slots__ = ("growing", "room")

    def __init__(self, room: float, growing: int) -> None:
        self.room = room
        self.growing = growing


def fair_rates(
    links_of: Mapping[FlowKey, Sequence[int]],
    flows_on: Mapping[int, Collection[FlowKey]],
    capacity_bytes_per_s: Sequence[float] | Mapping[int, float],
    changed: Iterable[int],
) -> dict[FlowKey, float]:
    """The rate in bytes/s of each flow that is connected by links in common to one of the links `changed`.

    Whatever becomes of those links, the rates of other flows stay as they are. `flows_on` is `links_of` turned round;
    a link that no flow loads need not be in it. Costs O(loads × log links) of the connected flows, where a load is one
    flow on one link.
    """
    links: dict[int, _SharedLink] = {}
    shared_of: dict[FlowKey, list[_SharedLink]] = {}
    limits: list[tuple[float, int, FlowKey]] = []
    rates: dict[FlowKey, float] = {}
    ahead = list(changed)
    for reached in ahead:
        for flow in flows_on.get(reached, ()):
            if flow in shared_of:
                continue
            limit = inf
            shared = []
            for at in links_of[flow]:
                link = links.get(at)
                if link is None:
                    growing = len(flows_on[at])
                    if growing == 1:
                        capacity = capacity_bytes_per_s[at]
                        if capacity < limit:
                            limit = capacity
                        continue
                    link = links[at] = _SharedLink(capacity_bytes_per_s[at], growing)
                    ahead.append(at)
                shared.append(link)
            if not shared:
                rates[flow] = limit
            elif limit < inf:
                limits.append((limit, len(shared_of), flow))
            shared_of[flow] = shared
    limits.sort(reverse=True)
    shares = [(link.room / link.growing, at) for at, link in links.items()]
    heapify(shares)
    while len(rates) < len(shared_of):
        share, at = shares[0]
        if limits and limits[-1][0] <= share:
            rate, _, flow = limits.pop()
            done: Collection[FlowKey] = (flow,)
        else:
            link = links[at]
            if not link.growing:
                heappop(shares)
                continue
            rate = max(0.0, link.room / link.growing)
            if rate > share:
                heapreplace(shares, (rate, at))
                continue
            done = flows_on[at]
        for flow in done:
            if flow not in rates:
                rates[flow] = rate
                for link in shared_of[flow]:
                    link.room -= rate
                    link.growing -= 1
    return rates
