"""Circuit breakers: who failed too often is left alone for a while, then tried by one.

    closed     failures are counted; so many of them within a while open it
    open       nobody is sent there; after a time it is half open
    half open  the first that is sent there is the probe, and nobody else is sent while it is under way. If it works the
               circuit is closed and everything forgotten; if it fails it is open again, for twice as long, up to a
               bound; if it ends without telling, another one may be the probe

Only the probe moves a circuit that is not closed: what was sent before it opened tells of the time before.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from vicinal.domain.ids import RequestId

Key = TypeVar("Key", bound=Hashable)


class Circuit(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerRule(Struct, frozen=True):
    """`failures_max` within `window_s` open a circuit, for `open_s` at first and for `open_s_max` at most."""

    failures_max: int = 3
    window_s: float = 30.0
    open_s: float = 10.0
    open_s_max: float = 480.0


class LeftOut(Struct, frozen=True):
    """Since when a circuit is not closed, and why. `until_s` is None while a probe is under way."""

    since_s: float
    until_s: float | None
    reason: str


@dataclass(slots=True)
class _Breaker:
    """`since_s` is None while it is closed, `until_s` unless it is open. `length_s` is that of its last opening."""

    failures_s: deque[float] = field(default_factory=deque)
    reason: str = ""
    since_s: float | None = None
    until_s: float | None = None
    length_s: float = 0.0
    probe: RequestId | None = None


class Breakers(Generic[Key]):
    """One circuit per key, all under one rule. A method that returns a truth value says whether it changed who is left
    out.

    It keeps nothing of keys that never failed.
    """

    def __init__(self, rule: BreakerRule) -> None:
        self._rule = rule
        self._breakers: dict[Key, _Breaker] = {}
        self._probing: dict[RequestId, list[Key]] = {}

    def circuit(self, key: Key) -> Circuit:
        breaker = self._breakers.get(key)
        if breaker is None or breaker.since_s is None:
            return Circuit.CLOSED
        return Circuit.HALF_OPEN if breaker.until_s is None else Circuit.OPEN

    def left_out(self) -> dict[Key, LeftOut]:
        """Where nobody may be sent now: open, or with a probe under way."""
        return {
            key: LeftOut(one.since_s, one.until_s, one.reason)
            for key, one in self._breakers.items()
            if one.since_s is not None and (one.until_s is not None or one.probe is not None)
        }

    def sent(self, key: Key, owner: RequestId) -> bool:
        """Work of `owner` is sent there: the probe, where the circuit is half open and has none."""
        breaker = self._breakers.get(key)
        if breaker is None or self.circuit(key) is not Circuit.HALF_OPEN or breaker.probe is not None:
            return False
        breaker.probe = owner
        self._probing.setdefault(owner, []).append(key)
        return True

    def failed(self, key: Key, owner: RequestId, reason: str, now: float) -> bool:
        """Work of `owner` failed there, and its client is not to blame."""
        breaker = self._breakers.setdefault(key, _Breaker())
        match self.circuit(key):
            case Circuit.CLOSED:
                breaker.failures_s.append(now)
                while breaker.failures_s[0] <= now - self._rule.window_s:
                    breaker.failures_s.popleft()
                if len(breaker.failures_s) < self._rule.failures_max:
                    return False
                breaker.since_s, breaker.length_s = now, self._rule.open_s
            case Circuit.HALF_OPEN if breaker.probe == owner:
                self._probe_over(key, breaker)
                breaker.length_s = min(2.0 * breaker.length_s, self._rule.open_s_max)
            case _:
                return False
        breaker.reason, breaker.until_s = reason, now + breaker.length_s
        return True

    def worked(self, key: Key, owner: RequestId) -> bool:
        """Work of `owner` was seen to work there."""
        breaker = self._breakers.get(key)
        if breaker is None or breaker.probe != owner:
            return False
        self._probe_over(key, breaker)
        del self._breakers[key]
        return True

    def over(self, owner: RequestId) -> bool:
        """`owner` is not under way any more, whatever came of it."""
        keys = self._probing.pop(owner, [])
        for key in keys:
            self._breakers[key].probe = None
        return bool(keys)

    def next_s(self) -> float | None:
        """When the first open circuit will be half open."""
        if not self._breakers:
            return None
        return min((one.until_s for one in self._breakers.values() if one.until_s is not None), default=None)

    def expire(self, now: float) -> bool:
        """Open circuits whose time is over are half open."""
        due = [one for one in self._breakers.values() if one.until_s is not None and one.until_s <= now]
        for breaker in due:
            breaker.until_s = None
        return bool(due)

    def forget(self, gone: Callable[[Key], bool]) -> None:
        """These keys mean somebody else from now on, who has not failed."""
        for key in [key for key in self._breakers if gone(key)]:
            self._probe_over(key, self._breakers.pop(key))

    def _probe_over(self, key: Key, breaker: _Breaker) -> None:
        if breaker.probe is None:
            return
        keys = self._probing[breaker.probe]
        keys.remove(key)
        if not keys:
            del self._probing[breaker.probe]
        breaker.probe = None
