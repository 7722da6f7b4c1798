"""Blocks that a finished prefill keeps for another engine to pull, each under a lease.

A lease runs until somebody claims the hold; from then on the puller keeps it alive until it has pulled or gives up.
Unclaimed blocks come back when the lease runs out, because whoever was to pull them may be dead.
"""

from dataclasses import dataclass
from math import inf

from vicinal.enginemodel.content import Content


@dataclass(slots=True)
class Hold:
    """`expires_s` is None once it is claimed."""

    id: str
    blocks: list[int]
    content: Content
    expires_s: float | None


class Holds:
    """Holds by the id of the work that left them. All leases are equally long and holds are added in the order of
    time, so the oldest that nobody has claimed is the first to run out: at `next_expiry_s`, infinity for never."""

    def __init__(self, lease_s: float) -> None:
        self.next_expiry_s = inf
        self._lease_s = lease_s
        self._by_id: dict[str, Hold] = {}
        self._unclaimed: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, work_id: str, blocks: list[int], content: Content, now: float) -> None:
        expires_s = now + self._lease_s
        self._by_id[work_id] = Hold(work_id, blocks, content, expires_s)
        self._unclaimed[work_id] = expires_s
        self._look()

    def claim(self, work_id: str) -> Hold | None:
        """Take on a hold, once. None when there is none (any more) or somebody has claimed it already."""
        hold = self._by_id.get(work_id)
        if hold is None or hold.expires_s is None:
            return None
        hold.expires_s = None
        del self._unclaimed[work_id]
        self._look()
        return hold

    def drop(self, work_id: str) -> Hold | None:
        self._unclaimed.pop(work_id, None)
        self._look()
        return self._by_id.pop(work_id, None)

    def expired(self, now: float) -> list[Hold]:
        """Remove and return the holds whose lease has run out."""
        due: list[Hold] = []
        while self.next_expiry_s <= now:
            work_id = next(iter(self._unclaimed))
            del self._unclaimed[work_id]
            due.append(self._by_id.pop(work_id))
            self._look()
        return due

    def _look(self) -> None:
        self.next_expiry_s = next(iter(self._unclaimed.values()), inf)
