"""Where the two legs of a bootstrap hand-off meet: by the address of the prefill engine's bootstrap server, and a room.

The decode leg takes its blocks and waits; when the prefill leg has computed, the KV sets off, and when it has arrived
the prefill leg answers. Whoever leaves first breaks the other. Rooms are remembered, because a real engine crashes of
one that comes twice.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from vicinal.clock import ModelClock
from vicinal.domain.plan import Leg
from vicinal.emulator.driver import EngineDriver
from vicinal.emulator.errors import HandOffError
from vicinal.emulator.leg import RunningLeg
from vicinal.emulator.transfers import Transfers

ROOMS_REMEMBERED = 65_536

Address = tuple[str, int]
"""Host and port of a bootstrap server."""


class Meeting:
    """One room. A `Party`: the decode engine pulls from it as from an engine that holds the KV."""

    def __init__(self, name: str, transfers: Transfers, ended: Callable[["Meeting"], None]) -> None:
        self.name = name
        self.prefill: tuple[EngineDriver, RunningLeg] | None = None
        self.decode: tuple[EngineDriver, RunningLeg] | None = None
        self.prompt: bytes | None = None
        self._transfers = transfers
        self._ended = ended
        self._computed = False
        self._over = asyncio.Event()
        self._broken: str | None = None

    @property
    def slot(self) -> int:
        assert self.prefill is not None
        return self.prefill[0].slot

    def join(self, kind: Leg, driver: EngineDriver, leg: RunningLeg) -> None:
        """This leg is one side of it."""
        leg.meeting = self
        if kind is Leg.PREFILL:
            self.prefill = (driver, leg)
        else:
            self.decode = (driver, leg)

    def keeps(self, hold_id: str) -> bool:  # noqa: ARG002 (it has one)
        """The KV is there to be pulled."""
        return self._computed

    def pulled(self, work_id: str, at_s: float) -> None:
        """It pulls nothing itself."""

    def release(self, hold_id: str, at_s: float) -> None:  # noqa: ARG002
        """The decode engine has it all, or gave up."""
        self._end(at_s, None)

    def computed(self, at_s: float) -> None:
        """The prefill leg is done: its KV may go, if anybody is left to take it."""
        assert self.prefill is not None
        driver, leg = self.prefill
        driver.claim(leg.work.id)
        if self._over.is_set():  # the engine is still telling what it did: it cannot be asked for more before that
            asyncio.get_running_loop().call_soon(driver.release, leg.work.id, at_s)
            return
        self._computed = True
        self._transfers.go(self.name, at_s)

    async def sent(self) -> str | None:
        """Wait until the KV is gone. Returns why it is not, if it never will be."""
        await self._over.wait()
        return self._broken

    def break_up(self, reason: str, at_s: float) -> None:
        """One side is gone. The other one fails."""
        if self._over.is_set():
            return
        decode = self.decode
        self._end(at_s, reason)
        if decode is not None:
            driver, leg = decode
            driver.cancel(leg.work.id)
            leg.fail(reason)

    def _end(self, at_s: float, broken: str | None) -> None:
        if self._over.is_set():
            return
        self._broken = broken
        self._over.set()
        self._ended(self)
        if self._computed and self.prefill is not None:
            driver, leg = self.prefill
            driver.release(leg.work.id, at_s)


class Rooms:
    """All meetings of a fleet. Who finds no partner for `patience_s` model seconds is broken off."""

    def __init__(self, transfers: Transfers, clock: ModelClock, patience_s: float) -> None:
        self._transfers = transfers
        self._clock = clock
        self._patience_s = patience_s
        self._open: dict[str, Meeting] = {}
        self._used: OrderedDict[tuple[str, Leg], None] = OrderedDict()

    def enter(self, address: Address, room: int, side: Leg, prompt: bytes) -> Meeting:
        """The meeting of this room, for the leg that is its `side`. Raises HandOffError for a room that this side used
        before, and for a prompt that is not the other side's."""
        name = f"{address[0]}:{address[1]}/{room}"
        if (name, side) in self._used:
            raise HandOffError(f"bootstrap_room {room} came twice: a real engine crashes of this")
        self._used[name, side] = None
        if len(self._used) > ROOMS_REMEMBERED:
            self._used.popitem(last=False)
        meeting = self._open.get(name)
        if meeting is None:
            meeting = self._open[name] = Meeting(name, self._transfers, self._close)
            meeting.prompt = prompt
            wait_s = self._patience_s / self._clock.speed
            asyncio.get_running_loop().call_later(wait_s, self._give_up, meeting)
        elif meeting.prompt != prompt:
            meeting.break_up("the two legs have different prompts", self._clock.now())
            raise HandOffError(f"the legs in bootstrap_room {room} have different prompts: a real engine dies of this")
        return meeting

    def lose(self, driver: EngineDriver) -> None:
        """An engine died."""
        for meeting in list(self._open.values()):
            if meeting.prefill is not None and meeting.prefill[0] is driver:
                meeting.break_up("the prefill engine is gone", self._clock.now())

    def _close(self, meeting: Meeting) -> None:
        self._open.pop(meeting.name, None)

    def _give_up(self, meeting: Meeting) -> None:
        if meeting.prefill is None or meeting.decode is None:
            meeting.break_up(f"no partner came within {self._patience_s:g} s", self._clock.now())
