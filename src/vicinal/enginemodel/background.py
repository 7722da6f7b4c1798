"""Other traffic on the network's links, which comes and goes as it likes.

Each link alternates on its own between free and taken, for exponential times: while taken, others have `share` of what
it carries, whatever flows there are. It is taken for on_s / (on_s + off_s) of the time, at time 0 too. The times come
from a stream that is handed in, so that a seed gives the same traffic whatever the flows do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from vicinal.domain.chance import Stream, exponential
from vicinal.enginemodel.flows import Network


@dataclass(frozen=True, slots=True)
class OnOff:
    """`share` of a link is taken for `on_s` on average, then nothing for `off_s`."""

    share: float
    on_s: float
    off_s: float


class Background:
    """Traffic on links by position. The caller asks when it changes next and applies that to the network."""

    def __init__(self, links: Sequence[int], pattern: OnOff, stream: Stream) -> None:
        if pattern.on_s <= 0 or pattern.off_s <= 0:
            raise ValueError(
                f"background traffic is on and off for more than 0 s, not {pattern.on_s} and {pattern.off_s}"
            )
        self._pattern = pattern
        self._stream = stream
        self._changes = [self._first(link) for link in links]
        """Per link: when it changes next, its position, and whether it is taken from then on."""
        heapify(self._changes)

    def next_event_s(self) -> float | None:
        """When a link changes next; None without links. There is always a next time."""
        return self._changes[0][0] if self._changes else None

    def apply(self, network: Network, now: float) -> None:
        """Tell `network` of every change until `now`, in order."""
        while self._changes and self._changes[0][0] <= now:
            at_s, link, taken = self._changes[0]
            network.occupy(link, self._pattern.share if taken else 0.0, at_s)
            mean_s = self._pattern.on_s if taken else self._pattern.off_s
            heapreplace(self._changes, (at_s + exponential(mean_s, self._stream), link, not taken))

    def _first(self, link: int) -> tuple[float, int, bool]:
        on_s, off_s = self._pattern.on_s, self._pattern.off_s
        if self._stream.random() < on_s / (on_s + off_s):
            return 0.0, link, True
        return exponential(off_s, self._stream), link, True
