"""Requests that wait here because no endpoint that answers has room.

First come, first served, bounded in number and in time.
"""

from vicinal.domain.ids import RequestId


class Holding:
    """A queue of request ids with one patience for all, so the oldest is always the first to run out."""

    def __init__(self, held_max: int, hold_s_max: float) -> None:
        self._held_max = held_max
        self._hold_s_max = hold_s_max
        self._since_s: dict[RequestId, float] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._since_s

    @property
    def full(self) -> bool:
        return len(self._since_s) >= self._held_max

    def add(self, request_id: RequestId, now: float) -> None:
        self._since_s[request_id] = now

    def remove(self, request_id: RequestId) -> None:
        """Does nothing for a request that is not held."""
        self._since_s.pop(request_id, None)

    def first(self) -> RequestId | None:
        return next(iter(self._since_s), None)

    def next_deadline_s(self) -> float | None:
        first = self.first()
        return None if first is None else self._since_s[first] + self._hold_s_max

    def expired(self, now: float) -> list[RequestId]:
        return [request_id for request_id, since_s in self._since_s.items() if since_s + self._hold_s_max <= now]
