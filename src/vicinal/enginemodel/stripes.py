"""A transfer and its stripes: how far each has got, and when it ends at its present rate."""

from dataclasses import dataclass
from math import inf

from vicinal.topology.graph import Level, Route


@dataclass(frozen=True, slots=True)
class FlowFinished:
    """The last byte arrived at `at_s`."""

    id: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Release:
    """What holds a transfer back while its bytes are being computed (see overlap.py).

    It moves at most at `bytes_per_s`, and its last `held_bytes` stay until all is there.
    """

    bytes_per_s: float
    held_bytes: float


class Stripe:
    """A part of a transfer on links of its own. `left_bytes` was right at `since_s`; from there it falls linearly.

    `valve` is a link that no other stripe has: it is as wide as the release, and closes when all that is released is
    gone.
    """

    __slots__ = ("ends_s", "held_bytes", "left_bytes", "links", "rate_bytes_per_s", "since_s", "transfer", "valve")

    def __init__(self, transfer: "Transfer", links: tuple[int, ...], size_bytes: float, now: float) -> None:
        self.transfer = transfer
        self.links = links
        self.left_bytes = size_bytes
        self.held_bytes = 0.0
        self.valve: int | None = None
        self.rate_bytes_per_s = 0.0
        self.since_s = now
        self.ends_s = inf if size_bytes else now

    def left_at(self, now: float) -> float:
        """Bytes that have not left by `now`, which is not after `ends_s`."""
        if self.rate_bytes_per_s == inf:
            return self.held_bytes
        return max(self.held_bytes, self.left_bytes - self.rate_bytes_per_s * (now - self.since_s))

    def flow(self, rate_bytes_per_s: float, now: float) -> None:
        """Go on at this rate from `now`."""
        if self.rate_bytes_per_s:
            self.left_bytes = self.left_at(now)
        self.since_s = now
        self.rate_bytes_per_s = rate_bytes_per_s
        if rate_bytes_per_s > 0.0:
            self.ends_s = now + (self.left_bytes - self.held_bytes) / rate_bytes_per_s
        else:
            self.ends_s = inf if self.left_bytes else now

    def hold(self, valve: int, release: Release, stripes: int) -> float:
        """Put this stripe, one of so many of its transfer, behind a valve. Returns the valve's width."""
        self.valve = valve
        self.links = (*self.links, valve)
        self.held_bytes = min(self.left_bytes, release.held_bytes / stripes)
        return release.bytes_per_s / stripes

    def lift(self, now: float) -> None:
        """Take the valve away; the stripe is at rest until it flows again."""
        self.flow(0.0, now)
        self.links = self.links[:-1]
        self.valve = None
        self.held_bytes = 0.0


class Transfer:
    """A flow as it was asked for. `stripes` are those under way: none before it begins."""

    __slots__ = ("_route", "begun", "cancelled", "id", "level", "release", "size_bytes", "stripes")

    def __init__(self, flow_id: str, route: Route, size_bytes: float, release: Release | None) -> None:
        self.id = flow_id
        self.level: Level = route.level
        self.size_bytes = size_bytes
        self.release = release
        self.stripes: list[Stripe] = []
        self.begun = False
        self.cancelled = False
        self._route = route

    def begin(self, now: float) -> list[Stripe]:
        """All stripes, at rest, with equal parts of the bytes."""
        self.begun = True
        part_bytes = self.size_bytes / len(self._route.stripes)
        self.stripes = [Stripe(self, links, part_bytes, now) for links in self._route.stripes]
        return self.stripes

    def moved_bytes(self, now: float) -> float:
        """What has left by `now`; of a stripe that is over, all."""
        return self.size_bytes - sum(stripe.left_at(now) for stripe in self.stripes) if self.begun else 0.0
