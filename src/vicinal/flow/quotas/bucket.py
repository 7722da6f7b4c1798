"""A token bucket: so much per second, with a burst."""


class Bucket:
    """Holds up to `capacity`, which it has at first, and gains `per_s` each second. Whoever finds something in it may
    go, and what that costs is taken even if it is more: the balance goes below zero by one charge at most, so nobody
    is too big to ever go, and what is taken in any t seconds is less than `capacity + per_s * t` and one charge.
    """

    __slots__ = ("_at_s", "_balance", "capacity", "per_s")

    def __init__(self, per_s: float, capacity: float, now: float) -> None:
        self.per_s = per_s
        self.capacity = capacity
        self._balance = capacity
        self._at_s = now

    def balance(self, now: float) -> float:
        if now > self._at_s:
            self._balance = min(self.capacity, self._balance + self.per_s * (now - self._at_s))
            self._at_s = now
        return self._balance

    def charge(self, amount: float, now: float) -> None:
        """Take `amount`, whatever is there. A negative one gives back what was taken too much, and never overfills."""
        self._balance = min(self.capacity, self.balance(now) - amount)

    def when(self, now: float) -> float:
        """Seconds from `now` after which there is something in it again; 0 when there is."""
        balance = self.balance(now)
        return 0.0 if balance > 0.0 else -balance / self.per_s

    def full(self, now: float) -> bool:
        return self.balance(now) >= self.capacity
