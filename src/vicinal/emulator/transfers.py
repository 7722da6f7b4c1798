"""KV on its way between emulated engines: the modelled network under the clock, shared by all engines of a fleet.

No bytes move. A pull asks the network for a flow; when its last byte would have arrived, the pulling engine goes on and
the holding engine gets its blocks back.

Every engine that wakes lets this go first, so that the end of a transfer is known to its engine before that engine
computes beyond it. A pull that an engine asks for while it catches up begins at the stamp of the asking, or where the
network stands already, if that is later: by at most the lateness of that one wake-up.
"""

from dataclasses import dataclass
from typing import Protocol

from vicinal.clock import ModelClock
from vicinal.emulator.clock import Alarm, ClockDebt
from vicinal.enginemodel.flows import Network
from vicinal.topology.graph import Routing


class Party(Protocol):
    """An engine at one end of a transfer. `slot` is its position in the network; what it `keeps` can be sent."""

    @property
    def slot(self) -> int: ...

    def pulled(self, work_id: str, at_s: float) -> None: ...

    def release(self, hold_id: str, at_s: float) -> None: ...

    def keeps(self, hold_id: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Pull:
    """What a work is to pull: the hold `hold_id` of `holder`, in blocks of `block_bytes`."""

    holder: Party
    hold_id: str
    block_bytes: int


class Transfers:
    """Flows by the id of the work that pulls; these ids are unique over the fleet."""

    def __init__(self, routing: Routing, clock: ModelClock) -> None:
        self.network = Network(routing)
        self.debt = ClockDebt()
        self._clock = clock
        self._ends: dict[str, tuple[Pull, Party]] = {}
        self._early: dict[str, tuple[str, Pull, Party, int]] = {}
        self._alarm = Alarm(clock, self.pump)
        self._stopped = False

    def start(self, work_id: str, pull: Pull, target: Party, blocks: int, at_s: float) -> None:
        """Send off; or, where the KV is not there yet, when `go` says so."""
        if not pull.holder.keeps(pull.hold_id):
            self._early[pull.hold_id] = (work_id, pull, target, blocks)
            return
        self.debt.begin(at_s)
        self._ends[work_id] = (pull, target)
        self.network.start(work_id, pull.holder.slot, target.slot, float(blocks * pull.block_bytes), at_s)
        self._arm()

    def go(self, hold_id: str, at_s: float) -> None:
        """The KV of this hold is there now."""
        early = self._early.pop(hold_id, None)
        if early is not None:
            self.start(*early, at_s)

    def abandon(self, work_id: str, pull: Pull, now: float) -> None:
        """The puller gives up: stop its flow, if it has begun, and tell the holder."""
        if self._ends.pop(work_id, None) is not None:
            self.network.cancel(work_id, now)
            self._arm()
        self._early.pop(pull.hold_id, None)
        pull.holder.release(pull.hold_id, now)

    def pump(self, now: float) -> None:
        """Hand on every transfer that has ended by `now`."""
        next_s = self.network.next_event_s()
        if next_s is None or next_s > now:
            return
        finished = self.network.advance(now)
        self.debt.woke(now, finished[0].at_s if finished else None)
        for flow in finished:
            pull, target = self._ends.pop(flow.id)
            target.pulled(flow.id, flow.at_s)
            pull.holder.release(pull.hold_id, flow.at_s)
        self._arm()

    def stop(self) -> None:
        self._stopped = True
        self._alarm.set(None)

    def _arm(self) -> None:
        self._alarm.set(None if self._stopped else self.network.next_event_s())
