"""The modelled network's naive twin, in exact fractions: at each moment everything is worked out anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass
class NaiveFlow:
    id: str
    links: tuple[int, ...]
    left: Fraction
    begins: Fraction


class NaiveNetwork:
    """Every flow is a stripe here. Capacities may change at any time."""

    def __init__(self, capacity: Sequence[float]) -> None:
        self.capacity = [Fraction(each) for each in capacity]
        self.flows: list[NaiveFlow] = []
        self.now = Fraction(0)
        self.finished: dict[str, Fraction] = {}

    def start(self, flow_id: str, links: tuple[int, ...], size: float, now: float, latency: float) -> None:
        self.run(now)
        self.flows.append(NaiveFlow(flow_id, links, Fraction(size), self.now + Fraction(latency)))

    def cancel(self, flow_id: str, now: float) -> None:
        self.run(now)
        self.flows = [flow for flow in self.flows if flow.id != flow_id]

    def change(self, link: int, capacity: Fraction, now: float) -> None:
        self.run(now)
        self.capacity[link] = capacity

    def run(self, until: float) -> None:
        """Go to `until` from one beginning or end to the next, until nothing more happens at that moment."""
        end = Fraction(until)
        while True:
            rates = filled({f.id: f.links for f in self.flows if f.begins <= self.now}, self.capacity)
            moments = [end] + [f.begins for f in self.flows if f.begins > self.now]
            moments += [self.now + f.left / rates[f.id] for f in self.flows if rates.get(f.id)]
            moments += [self.now for f in self.flows if f.id in rates and not f.left]
            moment = min(moments)
            passed = moment - self.now
            for flow in self.flows:
                flow.left -= rates.get(flow.id, Fraction(0)) * passed
            self.now = moment
            over = [f for f in self.flows if f.id in rates and not f.left]
            self.finished |= {f.id: self.now for f in over}
            self.flows = [f for f in self.flows if f not in over]
            if not over and not passed:
                return


def filled(links_of: dict[str, tuple[int, ...]], capacity: Sequence[Fraction]) -> dict[str, Fraction]:
    """Progressive filling as it is defined: all grow alike until a link is full, and whoever is on it stops."""
    rates = {flow: Fraction(0) for flow in links_of}
    growing = set(links_of)
    while growing:
        room = {
            link: capacity[link] - sum((rates[f] for f, ls in links_of.items() if link in ls), Fraction(0))
            for link in {link for flow in growing for link in links_of[flow]}
        }
        step = min(room[link] / sum(link in links_of[flow] for flow in growing) for link in room)
        for flow in growing:
            rates[flow] += step
        full = {link for link, left in room.items() if left == step * sum(link in links_of[flow] for flow in growing)}
        growing = {flow for flow in growing if not full & set(links_of[flow])}
    return rates
