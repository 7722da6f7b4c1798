"""One engine's queue, first come, first served, whose true speed a test sets, kept as full as a limit allows."""

from collections import deque
from dataclasses import dataclass, field

from vicinal.contracts.limit import Limit


@dataclass
class SlowEngine:
    """Legs of `compute_s` predicted seconds each; they take `slowness` times as long. All in slot 0."""

    limit: Limit
    compute_s: float = 0.1
    slowness: float = 1.0
    now: float = 0.0
    waited_s: list[float] = field(default_factory=list)
    _queue: deque[tuple[float, float]] = field(default_factory=deque)

    def answer(self) -> float:
        """Fill the queue up to the limit, then let its first leg answer. Returns the limit in seconds then."""
        while not self._queue or len(self._queue) * self.compute_s < self.limit.limit_s[0]:
            self._queue.append((self.now, len(self._queue) * self.compute_s))
        self.now += self.slowness * self.compute_s
        sent_s, wait_s = self._queue.popleft()
        self.waited_s.append(self.now - sent_s)
        self.limit.observe(0, wait_s, wait_s + self.compute_s, self.now - sent_s, self.now)
        return float(self.limit.limit_s[0])

    def answers(self, count: int) -> list[float]:
        return [self.answer() for _ in range(count)]
