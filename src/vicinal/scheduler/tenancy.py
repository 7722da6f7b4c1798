"""What tenants may use, as the scheduler's other parts ask for it and tell of it."""

from vicinal.cluster.state import ClusterState
from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.request import Request
from vicinal.flow.quotas.exceeded import Exceeded
from vicinal.flow.quotas.kept import Kept
from vicinal.flow.quotas.quotas import Quotas
from vicinal.flow.reserves import Reserves
from vicinal.flow.tenants import Tenants
from vicinal.scheduler.settings import SchedulerSettings


class Tenancy:
    """Quotas, reserves, and who keeps how much. Costs a few looks per request where nothing is said of tenants."""

    def __init__(self, tenants: Tenants, state: ClusterState) -> None:
        self.tenants = tenants
        self.quotas = Quotas(tenants)
        self.kept = Kept(tenants, state.index)
        self.reserves = Reserves(tenants, state.ledger)
        self._state = state
        state.index_limit.before = self.kept.cool

    def fleet_changed(self) -> None:
        """A copied token weighs what it does on the endpoints that there are now."""
        self.quotas.kv_bytes_per_token = float(self._state.fleet.kv_bytes_per_token.max(initial=0.0))

    def exceeded(self, request: Request, now: float) -> Exceeded | None:
        """Charge a request that arrives, or say why not. Copies of a tenant that keeps too much are refused."""
        keeps = self.kept.exceeded(request) if request.copy_to is not None else None
        return keeps or self.quotas.arrived(request, now)

    def expect(self, slot: int, request: Request, now: float) -> None:
        """The prompt is going to be in the slot; whoever brings blocks of it keeps them."""
        known = self.kept.known(request)
        covered = self._state.index.expect(slot, request.block_hashes, now)
        if known is not None:
            self.kept.brought(request, known, covered)

    def holds(self, request_id: RequestId, now: float) -> None:
        """What the request has reserved may have changed."""
        if self.quotas.counts(request_id):
            ledger = self._state.ledger
            blocks = sum(ledger.blocks[request_id, slot] for slot in ledger.slots_held(request_id))
            self.quotas.held(request_id, blocks, now)


def quota_refusal(exceeded: Exceeded, spread_s: float, settings: SchedulerSettings) -> Outcome:
    """`spread_s` keeps those apart who are refused together. When only an end of a request of its own can tell when the
    tenant may come again, it is told what everybody is."""
    retry_s = settings.retry_after_s if exceeded.retry_s is None else exceeded.retry_s
    return Outcome(Ending.QUOTA_EXCEEDED, exceeded.words, retry_s + spread_s, exceeded.quota)
