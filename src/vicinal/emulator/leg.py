"""One leg of a request inside an emulated engine, as its HTTP handler sees it."""

import asyncio
from typing import Protocol

from vicinal.domain.plan import Leg
from vicinal.enginemodel.work import Finished, Work


class Meeting(Protocol):
    """What a leg knows of its partner (rooms.py)."""

    def computed(self, at_s: float) -> None: ...

    async def sent(self) -> str | None: ...

    def break_up(self, reason: str, at_s: float) -> None: ...


class LegBrokenError(Exception):
    """The engine cannot finish this leg: what it was to pull is gone."""


class RunningLeg:
    """`output` is what it says; `generated` tokens of it may be shown. The handler waits for `changed`, the driver
    says when.

    `reason` is the finish_reason that its answer is going to have. A leg of a bootstrap hand-off has a `meeting`.
    """

    def __init__(self, work: Work, output: bytes, request_id: str, kind: Leg, reason: str) -> None:
        self.work = work
        self.output = output
        self.request_id = request_id
        self.kind = kind
        self.reason = reason
        self.meeting: Meeting | None = None
        self.generated = 0
        self.finished: Finished | None = None
        self._broken: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def changed(self, seen: int) -> Finished | None:
        """Wait until more than `seen` tokens are there to show or the leg is over. Raises LegBrokenError."""
        while self.generated <= seen and self.finished is None and self._broken is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._broken is not None:
            raise LegBrokenError(self._broken)
        return self.finished

    async def end(self) -> Finished:
        """Wait until the leg is over. Raises LegBrokenError."""
        while (finished := await self.changed(self.work.content.output_tokens)) is None:
            pass
        return finished

    def fail(self, reason: str) -> None:
        self._broken = reason
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
