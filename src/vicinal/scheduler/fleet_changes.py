"""The fleet changes: who has to know, and in which order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vicinal.cluster.state import ClusterState
from vicinal.cost.model import USUAL_PROMPT_TOKENS, CostModel
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import RequestId
from vicinal.scheduler.blame import Blame
from vicinal.scheduler.overload import Overload
from vicinal.scheduler.reserving import Reservations
from vicinal.scheduler.selfcheck import SelfCheck
from vicinal.scheduler.tenancy import Tenancy
from vicinal.scheduler.tracked import Tracked


@dataclass(frozen=True, slots=True)
class FleetChanges:
    """Everybody who keeps something by slot or by name. What they kept of those that left is void."""

    state: ClusterState
    cost: CostModel
    reservations: Reservations
    selfcheck: SelfCheck
    tenancy: Tenancy
    blame: Blame
    overload: Overload

    def take(self, endpoints: Sequence[Endpoint], requests: Mapping[RequestId, Tracked], now: float) -> None:
        """The fleet is now exactly these; what `requests` have on those that left is given up."""
        before = tuple(self.state.fleet.endpoints)
        left = frozenset(self.state.change_fleet(endpoints))
        gone = {slot: before[slot].id for slot in left}
        if left:
            self.selfcheck.forget(left, [*gone.values()])
            for tracked in requests.values():
                self.reservations.abandon(tracked, left, now)
                self.selfcheck.abandon(tracked, left)
        self.cost.rebuild(self.state.fleet, self.state.topology)
        self.tenancy.fleet_changed()
        self.blame.fleet_changed(gone.values())
        self.overload.fleet_changed(gone)
        self.state.assume_strangers(self.cost.usual_prefill_s(), USUAL_PROMPT_TOKENS)
