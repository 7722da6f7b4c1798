"""Turns for those whose turn it is not: bands are strict, and still nobody starves.

What has waited for a share of its own patience is aged, and takes turns of higher bands, as long as aged work gets no
more than a small share of all the prefill seconds that are sent off. So the higher bands lose that share at most,
however much lies below, and the lower ones get it at least, however much comes above.
"""

from dataclasses import dataclass

from vicinal.contracts.flow import Waiting

CREDIT_S = 30.0
"""Prefill seconds whose share can be saved up while nothing aged waits."""


@dataclass(slots=True)
class AgedTurns:
    """`share` of the prefill seconds are for aged work; 0 is none. `after` is the share of its patience after which a
    request is aged."""

    share: float
    after: float
    _credit_s: float = 0.0

    def due(self, oldest: Waiting, now: float) -> bool:
        """A band whose oldest is this one may go before those above it."""
        if self.share <= 0.0 or self._credit_s < 0.0:
            return False
        return now - oldest.since_s >= self.after * (oldest.until_s - oldest.since_s)

    def sent(self, prefill_s: float, *, aged: bool) -> None:
        """A prefill is sent off; `aged` says that it took the turn of a higher band."""
        earned_s = self.share * prefill_s - (prefill_s if aged else 0.0)
        self._credit_s = min(self._credit_s + earned_s, self.share * CREDIT_S)
