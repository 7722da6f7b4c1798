"""Pairs whose concurrent hand-off failed although both engines live: they are avoided for a while.

A failed transfer may stick to the pair of engines (their session stays marked as failed), and an engine's error does
not say which side was at fault. So neither engine is blamed. A pair that fails again is avoided for twice as long; one
that works is forgotten.
"""

from dataclasses import dataclass

from vicinal.domain.ids import EndpointId

FIRST_S = 30.0
LONGEST_S = 480.0

Pair = tuple[EndpointId, EndpointId]
"""Who prefills, and who decodes."""


@dataclass(slots=True)
class _Failure:
    """`until_s` is None once its time is over; the length is kept for the next failure."""

    until_s: float | None
    length_s: float


class FailedPairs:
    """Every change of who is avoided is told by a return value."""

    def __init__(self) -> None:
        self._failures: dict[Pair, _Failure] = {}

    def avoided(self) -> list[Pair]:
        return [pair for pair, failure in self._failures.items() if failure.until_s is not None]

    def note(self, pair: Pair, now: float) -> None:
        """A hand-off between these two failed."""
        before = self._failures.get(pair)
        length_s = FIRST_S if before is None else min(2.0 * before.length_s, LONGEST_S)
        self._failures[pair] = _Failure(now + length_s, length_s)

    def worked(self, pair: Pair) -> bool:
        """A hand-off between these two was seen to work. True when they were avoided."""
        failure = self._failures.pop(pair, None)
        return failure is not None and failure.until_s is not None

    def next_s(self) -> float | None:
        """When the first of them may be tried again."""
        if not self._failures:
            return None
        return min((f.until_s for f in self._failures.values() if f.until_s is not None), default=None)

    def expire(self, now: float) -> bool:
        """True when pairs may be tried again that were avoided before."""
        over = [f for f in self._failures.values() if f.until_s is not None and f.until_s <= now]
        for failure in over:
            failure.until_s = None
        return bool(over)

    def forget(self, endpoints: frozenset[EndpointId]) -> None:
        """These left the fleet; whoever has their names next has not failed."""
        for pair in [pair for pair in self._failures if not endpoints.isdisjoint(pair)]:
            del self._failures[pair]
