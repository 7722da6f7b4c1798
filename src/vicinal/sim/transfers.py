"""KV on its way between simulated engines. A pull holds its source's blocks until its last byte has come."""

from collections.abc import Callable
from dataclasses import dataclass

from vicinal.enginemodel.flows import Network
from vicinal.sim.agenda import Agenda, Rank, Wake
from vicinal.sim.server import Server


@dataclass(frozen=True, slots=True)
class Pull:
    """`target` pulls what the work `hold_id` left on `source`."""

    hold_id: str
    source: Server
    target: Server


class Transfers:
    """Flows by the id of the work that pulls. `changed` is told which servers' engines have news."""

    def __init__(self, agenda: Agenda, network: Network, changed: Callable[[Server], None]) -> None:
        self.network = network
        self._changed = changed
        self._pulls: dict[str, Pull] = {}
        self._wake = Wake(agenda, Rank.NETWORK, self._advance)

    def start(self, work_id: str, pull: Pull, kv_bytes: float, now: float) -> None:
        self._pulls[work_id] = pull
        self.network.start(work_id, pull.source.slot, pull.target.slot, kv_bytes, now)
        self._arm()

    def abandon(self, work_id: str, now: float) -> bool:
        """The puller gives up, or one end died: stop the flow and free the source. False when none had begun."""
        pull = self._pulls.pop(work_id, None)
        if pull is None:
            return False
        self.network.cancel(work_id, now)
        self._free(pull, now)
        self._arm()
        return True

    def _advance(self, now: float) -> None:
        for flow in self.network.advance(now):
            pull = self._pulls.pop(flow.id)
            if pull.target.engine is not None:
                pull.target.engine.pulled(flow.id, now)
                self._changed(pull.target)
            self._free(pull, now)
        self._arm()

    def _free(self, pull: Pull, now: float) -> None:
        if pull.source.engine is not None:
            pull.source.engine.release(pull.hold_id, now)
            self._changed(pull.source)

    def _arm(self) -> None:
        self._wake.at(self.network.next_event_s())
