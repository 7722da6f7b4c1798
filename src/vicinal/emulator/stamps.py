"""What an emulated engine knows of its finished legs, in model seconds. Not part of vLLM: only measuring reads it."""

from collections import deque

from vicinal.wire.stamps import Stamp

_KEPT_MAX = 200_000


class Stamps:
    """The latest legs until somebody takes them; the oldest go first when nobody does, and `dropped` counts them."""

    def __init__(self) -> None:
        self._kept: deque[Stamp] = deque()
        self.dropped = 0

    def add(self, stamp: Stamp) -> None:
        if len(self._kept) == _KEPT_MAX:
            self._kept.popleft()
            self.dropped += 1
        self._kept.append(stamp)

    def drain(self) -> list[Stamp]:
        stamps = list(self._kept)
        self._kept.clear()
        return stamps
