"""KV on its way between simulated engines. A pull holds its source's blocks until its last byte has come."""

from collections.abc import Callable
from dataclasses import dataclass

from vicinal.enginemodel.flows import Network
from vicinal.enginemodel.overlap import exposed_s
from vicinal.sim.agenda import Agenda, Rank, Wake
from vicinal.sim.server import Server


@dataclass(frozen=True, slots=True)
class Pull:
    """`target` pulls what the work `hold_id` left on `source`."""

    hold_id: str
    source: Server
    target: Server


class Transfers:
    """Flows by the id of the work that pulls. `changed` is told which servers' engines have news.

    With `layers`, what would have left during the prefill, alone on its way, is there when the pull begins: it is
    counted in `hidden_bytes`, by level of the network, and does not load links. That is right where links are idle, and
    too good where they are shared.
    """

    def __init__(self, agenda: Agenda, network: Network, changed: Callable[[Server], None], layers: int) -> None:
        self.network = network
        self.hidden_bytes: dict[str, float] = {}
        self._layers = layers
        self._changed = changed
        self._pulls: dict[str, Pull] = {}
        self._wake = Wake(agenda, Rank.NETWORK, self._advance)

    def start(self, work_id: str, pull: Pull, kv_bytes: float, compute_s: float, now: float) -> None:
        """Send what is pulled; its prefill computed for `compute_s`."""
        self._pulls[work_id] = pull
        left_bytes = kv_bytes
        if self._layers > 1:
            level, rate_bytes_per_s = self.network.alone(pull.source.slot, pull.target.slot, work_id)
            alone_s = kv_bytes / rate_bytes_per_s
            left_bytes *= exposed_s(alone_s, compute_s, self._layers) / alone_s if alone_s else 1.0
            self.hidden_bytes[level.label] = self.hidden_bytes.get(level.label, 0.0) + kv_bytes - left_bytes
        self.network.start(work_id, pull.source.slot, pull.target.slot, left_bytes, now)
        self.arm()

    def abandon(self, work_id: str, now: float) -> bool:
        """The puller gives up, or one end died: stop the flow and free the source. False when none had begun."""
        pull = self._pulls.pop(work_id, None)
        if pull is None:
            return False
        self.network.cancel(work_id, now)
        self._free(pull, now)
        self.arm()
        return True

    def _advance(self, now: float) -> None:
        for flow in self.network.advance(now):
            pull = self._pulls.pop(flow.id)
            if pull.target.engine is not None:
                pull.target.engine.pulled(flow.id, now)
                self._changed(pull.target)
            self._free(pull, now)
        self.arm()

    def _free(self, pull: Pull, now: float) -> None:
        if pull.source.engine is not None:
            pull.source.engine.release(pull.hold_id, now)
            self._changed(pull.source)

    def arm(self) -> None:
        """Come back when the network has news, which others may have changed."""
        self._wake.at(self.network.next_event_s())
