"""Blocks that a finished prefill keeps for another engine to pull, each under a lease.

A lease runs until somebody claims the hold; from then on the puller keeps it alive until it has pulled or gives up.
Unclaimed blocks come back when the lease runs out, because whoever was to pull them may be dead.
"""

from dataclasses import dataclass

from vicinal.enginemodel.content import Content


@dataclass(slots=True)
class Hold:
    """`expires_s` is None once it is claimed."""

    id: str
    blocks: list[int]
    content: Content
    expires_s: float | None


class Holds:
    """Holds by the id of the work that left them."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._by_id: dict[str, Hold] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, work_id: str, blocks: list[int], content: Content, now: float) -> None:
        self._by_id[work_id] = Hold(work_id, blocks, content, now + self._lease_s)

    def claim(self, work_id: str) -> Hold | None:
        """Take on a hold, once. None when there is none (any more) or somebody has claimed it already."""
        hold = self._by_id.get(work_id)
        if hold is None or hold.expires_s is None:
            return None
        hold.expires_s = None
        return hold

    def drop(self, work_id: str) -> Hold | None:
        return self._by_id.pop(work_id, None)

    def next_expiry_s(self) -> float | None:
        return min((h.expires_s for h in self._by_id.values() if h.expires_s is not None), default=None)

    def expired(self, now: float) -> list[Hold]:
        """Remove and return the holds whose lease has run out."""
        due = [h for h in self._by_id.values() if h.expires_s is not None and h.expires_s <= now]
        for hold in due:
            del self._by_id[hold.id]
        return due
