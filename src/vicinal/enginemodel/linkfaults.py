"""Links that become slow or fail at a time, and come back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop
from math import inf, prod

from vicinal.domain.chance import Stream, exponential
from vicinal.enginemodel.flows import Network
from vicinal.topology.graph import Link
from vicinal.topology.naming import links_named


@dataclass(frozen=True, slots=True)
class LinkFault:
    """From `at_s` to `until_s` the links of this name (topology/naming.py) have `factor` of their capacity.

    Factor 0 is a dead link: what is on it stalls. `until_s` may be infinite.
    """

    link: str
    at_s: float
    until_s: float
    factor: float


class LinkFaults:
    """Faults in the order of time. The caller asks when a link changes next and applies that to the network.

    Faults that overlap on a link multiply. Raises UnknownLinkError for a name that no link has, ValueError for a fault
    that ends before it begins or has no sensible factor.
    """

    def __init__(self, links: Sequence[Link], faults: Sequence[LinkFault]) -> None:
        self._changes: list[tuple[float, int, int, bool]] = []
        """When, on which link, which fault, and whether it begins."""
        self._faults = tuple(faults)
        self._active: dict[int, dict[int, float]] = {}
        for number, fault in enumerate(faults):
            if not 0.0 <= fault.at_s < fault.until_s:
                raise ValueError(f"fault of {fault.link}: from {fault.at_s} s to {fault.until_s} s is no time")
            if not 0.0 <= fault.factor < inf:
                raise ValueError(f"fault of {fault.link}: {fault.factor} is no part of a capacity")
            for link in links_named(links, fault.link):
                self._changes.append((fault.at_s, link, number, True))
                if fault.until_s < inf:
                    self._changes.append((fault.until_s, link, number, False))
        heapify(self._changes)

    def next_event_s(self) -> float | None:
        """When a link changes next; None when no fault is to come or to end."""
        return self._changes[0][0] if self._changes else None

    def apply(self, network: Network, now: float) -> None:
        """Tell `network` of every change until `now`, in order."""
        while self._changes and self._changes[0][0] <= now:
            at_s, link, number, begins = heappop(self._changes)
            active = self._active.setdefault(link, {})
            if begins:
                active[number] = self._faults[number].factor
            else:
                del active[number]
            network.scale(link, prod(active.values()), at_s)


def drawn_faults(
    names: Sequence[str], factor: float, sound_s: float, faulty_s: float, until_s: float, stream: Stream
) -> tuple[LinkFault, ...]:
    """Faults of each name until `until_s`: sound for `sound_s` on average, then at `factor` for `faulty_s`."""
    return tuple(fault for name in names for fault in _faults_of(name, factor, sound_s, faulty_s, until_s, stream))


def _faults_of(
    name: str, factor: float, sound_s: float, faulty_s: float, until_s: float, stream: Stream
) -> Iterator[LinkFault]:
    at_s = exponential(sound_s, stream)
    while at_s < until_s:
        ends_s = at_s + exponential(faulty_s, stream)
        if ends_s > at_s:
            yield LinkFault(name, at_s, ends_s, factor)
        at_s = ends_s + exponential(sound_s, stream)
