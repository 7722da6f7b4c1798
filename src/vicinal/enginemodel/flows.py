"""The modelled network: transfers as fluid flows that share links max-min fairly.

A flow waits for its path's latency, during which it loads nothing, and then moves at its fair share until its last
byte has left. Rates change only when a flow begins or ends, so between such moments everything is linear: a single
flow takes latency + bytes / narrowest link.
"""

from dataclasses import dataclass
from math import inf

from vicinal.enginemodel.fairness import fair_rates
from vicinal.topology.graph import Level, Topology


@dataclass(frozen=True, slots=True)
class FlowFinished:
    """The last byte arrived at `at_s`."""

    id: str
    at_s: float


@dataclass(slots=True)
class _Flow:
    id: str
    links: tuple[int, ...]
    level: Level
    size_bytes: float
    begins_s: float
    left_bytes: float
    rate_bytes_per_s: float = 0.0
    begun: bool = False

    @property
    def next_s(self) -> float:
        """When this flow changes next, at its present rate."""
        if not self.begun:
            return self.begins_s
        return self.begins_s + (self.left_bytes / self.rate_bytes_per_s if self.rate_bytes_per_s else inf)


class Network:
    """Flows over a topology's links. Between calls it stands at the latest time it was given."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._capacity = topology.bytes_per_s.tolist()
        self._flows: dict[str, _Flow] = {}
        self._finished: list[FlowFinished] = []
        self._now_s = 0.0
        self.bytes_by_level: dict[str, float] = {level.label: 0.0 for level in Level}

    def __len__(self) -> int:
        return len(self._flows)

    def start(self, flow_id: str, source_slot: int, target_slot: int, size_bytes: float, now: float) -> None:
        """Send `size_bytes` from one endpoint's slot to another's, beginning at `now` plus the path's latency."""
        if flow_id in self._flows:
            raise ValueError(f"flow {flow_id} is under way already")
        if size_bytes < 0:
            raise ValueError(f"flow {flow_id} cannot have {size_bytes} bytes")
        self._run(now)
        path = self._topology.path(source_slot, target_slot)
        begins_s = self._now_s + path.latency_s
        self._flows[flow_id] = _Flow(flow_id, path.links, path.level, size_bytes, begins_s, size_bytes)

    def cancel(self, flow_id: str, now: float) -> None:
        """Stop a flow; what it has moved so far stays counted. Unknown flows are fine: it may just have finished."""
        self._run(now)
        flow = self._flows.pop(flow_id, None)
        if flow is not None:
            self._count(flow)
            if flow.begun:
                self._share()

    def rate_bytes_per_s(self, flow_id: str) -> float:
        """A flow's present share; 0 while it waits for its latency."""
        return self._flows[flow_id].rate_bytes_per_s

    def advance(self, now: float) -> list[FlowFinished]:
        """The flows that have finished by `now` and were not reported yet, in order."""
        self._run(now)
        finished, self._finished = self._finished, []
        return finished

    def next_event_s(self) -> float | None:
        """When a flow begins or ends next without news."""
        return min((flow.next_s for flow in self._flows.values()), default=None)

    def _run(self, now: float) -> None:
        while (at_s := self.next_event_s()) is not None and at_s <= now:
            due = [flow for flow in self._flows.values() if flow.next_s <= at_s]
            self._now_s = max(self._now_s, at_s)
            self._progress(self._now_s)
            for flow in due:
                if flow.begun:
                    flow.left_bytes = 0.0
                    del self._flows[flow.id]
                    self._count(flow)
                    self._finished.append(FlowFinished(flow.id, self._now_s))
                else:
                    flow.begun = True
            self._share()
        self._now_s = max(self._now_s, now)

    def _progress(self, now: float) -> None:
        """Move all begun flows to `now`; `begins_s` is then the time up to which `left_bytes` is right."""
        for flow in self._flows.values():
            if flow.begun:
                if flow.rate_bytes_per_s != inf:
                    flow.left_bytes = max(0.0, flow.left_bytes - flow.rate_bytes_per_s * (now - flow.begins_s))
                flow.begins_s = now

    def _share(self) -> None:
        self._progress(self._now_s)
        begun = {flow.id: flow.links for flow in self._flows.values() if flow.begun}
        for flow_id, rate in fair_rates(begun, self._capacity).items():
            self._flows[flow_id].rate_bytes_per_s = rate

    def _count(self, flow: _Flow) -> None:
        """Add to its level what the flow has moved up to now."""
        moved = 0.0
        if flow.begun:
            left = flow.left_bytes - flow.rate_bytes_per_s * (self._now_s - flow.begins_s) if flow.left_bytes else 0.0
            moved = flow.size_bytes - max(0.0, left)
        self.bytes_by_level[flow.level.label] += moved
