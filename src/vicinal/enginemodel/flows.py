"""The modelled network: transfers as fluid flows that share links max-min fairly.

A transfer waits for its path's latency, during which it loads nothing; then each of its stripes moves at its fair share
until its last byte has left, and the last stripe's end is the transfer's. Shares change only when a stripe begins or
ends or a link changes, so between such moments everything is linear: a single flow takes latency + bytes / narrowest
link.

Such a moment changes only the shares of those stripes that are connected to it by links in common, so only these are
shared out again, and a stripe is brought up to date only when its own share changes. What a moment costs depends on how
many transfers meet, not on how many there are.
"""

from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np
from numpy.typing import NDArray

from vicinal.enginemodel.fairness import fair_rates
from vicinal.enginemodel.stripes import FlowFinished, Release, Stripe, Transfer
from vicinal.topology.graph import Level, Routing


class Network:
    """Transfers over a routing's links. Between calls it stands at the latest time it was given.

    All times are seconds on the caller's clock. A time before the latest one is taken as the latest one.
    """

    def __init__(self, routing: Routing) -> None:
        self.links = routing.links
        self._routing = routing
        self._scale = [1.0] * len(self.links)
        self._taken = [0.0] * len(self.links)
        self._capacity = {at: link.bytes_per_s for at, link in enumerate(self.links)}
        self._transfers: dict[str, Transfer] = {}
        self._waiting: list[tuple[float, int, Transfer]] = []
        self._numbers = count()
        self._moving: dict[Stripe, tuple[int, ...]] = {}
        """Every stripe under way, with its links."""
        self._stripes_on: dict[int, dict[Stripe, None]] = {}
        self._changed: dict[int, None] = {}
        """Links whose shares are out of date."""
        self._next_s: float | None = inf
        """When something happens next; None when that is not known."""
        self._finished: list[FlowFinished] = []
        self._now_s = 0.0
        self.bytes_by_level: dict[str, float] = {level.label: 0.0 for level in Level}

    def __len__(self) -> int:
        return len(self._transfers)

    def start(
        self,
        flow_id: str,
        source_slot: int,
        target_slot: int,
        size_bytes: float,
        now: float,
        release: Release | None = None,
    ) -> None:
        """Send `size_bytes` from one endpoint's slot to another's, beginning at `now` plus the path's latency.

        `release` holds it back while its bytes are still being computed; see `released`.
        """
        if flow_id in self._transfers:
            raise ValueError(f"flow {flow_id} is under way already")
        if size_bytes < 0:
            raise ValueError(f"flow {flow_id} cannot have {size_bytes} bytes")
        self._run(now)
        route = self._routing.route(source_slot, target_slot, flow_id)
        transfer = self._transfers[flow_id] = Transfer(flow_id, route, size_bytes, release)
        begins_s = self._now_s + route.latency_s
        heappush(self._waiting, (begins_s, next(self._numbers), transfer))
        if self._next_s is not None:
            self._next_s = min(self._next_s, begins_s)

    def released(self, flow_id: str, now: float) -> None:
        """All bytes of a flow that was started with a `release` are there: nothing holds it back any more."""
        self._run(now)
        transfer = self._transfers[flow_id]
        transfer.release = None
        for stripe in transfer.stripes:
            if stripe.valve is not None:
                self._leave(stripe)
                del self._capacity[stripe.valve]
                stripe.lift(self._now_s)
                self._join(stripe)

    def cancel(self, flow_id: str, now: float) -> None:
        """Stop a flow; what it has moved so far stays counted. If it has just finished, nobody is told any more.
        Unknown flows are fine."""
        self._run(now)
        self._finished = [flow for flow in self._finished if flow.id != flow_id]
        transfer = self._transfers.pop(flow_id, None)
        if transfer is not None:
            transfer.cancelled = True
            self._count(transfer)
            for stripe in transfer.stripes:
                self._remove(stripe)
            self._next_s = None

    def alone(self, source_slot: int, target_slot: int, flow_id: str) -> tuple[Level, float]:
        """The level of a flow's path, and the rate that it would have with sound links to itself."""
        route = self._routing.route(source_slot, target_slot, flow_id)
        narrowest = (min((self.links[at].bytes_per_s for at in links), default=inf) for links in route.stripes)
        return route.level, min(narrowest, default=inf) * len(route.stripes)

    def rate_bytes_per_s(self, flow_id: str) -> float:
        """A flow's present share; 0 while it waits for its latency."""
        self._share()
        return sum(stripe.rate_bytes_per_s for stripe in self._transfers[flow_id].stripes)

    def advance(self, now: float) -> list[FlowFinished]:
        """The flows that have finished by `now` and were not reported yet, in order."""
        self._run(now)
        finished, self._finished = self._finished, []
        return finished

    def next_event_s(self) -> float | None:
        """When there is something to `advance` for: a flow begins or ends without news, or has ended while others were
        dealt with. None when nothing will."""
        if self._finished:
            return self._now_s
        next_s = self._next()
        return None if next_s == inf else next_s

    def scale(self, link: int, factor: float, now: float) -> None:
        """From `now` on, the link at this position has `factor` of its capacity: 0 is a dead link, 1 a sound one."""
        if not 0.0 <= factor < inf:
            raise ValueError(f"link {self.links[link].id} cannot have {factor} of its capacity")
        self._run(now)
        self._scale[link] = factor
        self._change(link)

    def occupy(self, link: int, share: float, now: float) -> None:
        """From `now` on, other traffic takes `share` of what the link carries, whatever flows there are."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"other traffic cannot take {share} of link {self.links[link].id}")
        self._run(now)
        self._taken[link] = share
        self._change(link)

    def flows_bytes_per_s(self) -> NDArray[np.float64]:
        """Per link: what flows load it with at present."""
        self._share()
        loads = np.zeros(len(self.links))
        for link, stripes in self._stripes_on.items():
            if link >= 0:
                loads[link] = sum(stripe.rate_bytes_per_s for stripe in stripes)
        return loads

    def others_bytes_per_s(self) -> NDArray[np.float64]:
        """Per link: what other traffic loads it with at present."""
        return np.array(
            [
                link.bytes_per_s * scale * taken
                for link, scale, taken in zip(self.links, self._scale, self._taken, strict=True)
            ]
        )

    def _run(self, now: float) -> None:
        while (at_s := self._next()) <= now and at_s < inf:
            self._now_s = max(self._now_s, at_s)
            while self._waiting and self._waiting[0][0] <= at_s:
                self._begin(heappop(self._waiting)[2])
            for stripe in [stripe for stripe in self._moving if stripe.ends_s <= at_s]:
                self._end(stripe)
            self._next_s = None
        self._now_s = max(self._now_s, now)

    def _next(self) -> float:
        self._share()
        if self._next_s is None:
            while self._waiting and self._waiting[0][2].cancelled:
                heappop(self._waiting)
            self._next_s = min((stripe.ends_s for stripe in self._moving), default=inf)
            if self._waiting:
                self._next_s = min(self._next_s, self._waiting[0][0])
        return self._next_s

    def _begin(self, transfer: Transfer) -> None:
        if not transfer.cancelled:
            for stripe in transfer.begin(self._now_s):
                if transfer.release is not None:
                    valve = -1 - next(self._numbers)
                    self._capacity[valve] = stripe.hold(valve, transfer.release, len(transfer.stripes))
                self._join(stripe)

    def _end(self, stripe: Stripe) -> None:
        """A stripe has no byte left, or none that is released."""
        if stripe.held_bytes:
            assert stripe.valve is not None
            self._capacity[stripe.valve] = 0.0
            self._changed[stripe.valve] = None
            return
        transfer = stripe.transfer
        stripe.left_bytes = 0.0
        self._remove(stripe)
        transfer.stripes.remove(stripe)
        if not transfer.stripes:
            del self._transfers[transfer.id]
            self._count(transfer)
            self._finished.append(FlowFinished(transfer.id, self._now_s))

    def _remove(self, stripe: Stripe) -> None:
        self._leave(stripe)
        del self._moving[stripe]
        if stripe.valve is not None:
            del self._capacity[stripe.valve]

    def _join(self, stripe: Stripe) -> None:
        self._moving[stripe] = stripe.links
        for link in stripe.links:
            self._stripes_on.setdefault(link, {})[stripe] = None
            self._changed[link] = None
        if not stripe.links:
            stripe.flow(inf, self._now_s)
            self._next_s = None

    def _leave(self, stripe: Stripe) -> None:
        for link in stripe.links:
            stripes = self._stripes_on[link]
            del stripes[stripe]
            if not stripes:
                del self._stripes_on[link]
            self._changed[link] = None

    def _change(self, link: int) -> None:
        self._capacity[link] = self.links[link].bytes_per_s * self._scale[link] * (1.0 - self._taken[link])
        self._changed[link] = None

    def _share(self) -> None:
        """Give every stripe that is connected to a change its share of the links as they are now."""
        if not self._changed:
            return
        rates = fair_rates(self._moving, self._stripes_on, self._capacity, self._changed)
        self._changed.clear()
        for stripe, rate in rates.items():
            if rate != stripe.rate_bytes_per_s:
                stripe.flow(rate, self._now_s)
        self._next_s = None

    def _count(self, transfer: Transfer) -> None:
        """Add to its level what a transfer has moved."""
        self.bytes_by_level[transfer.level.label] += transfer.moved_bytes(self._now_s)
