"""Flow from plain words and numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from vicinal.contracts.flow import Fairness, Ordering
from vicinal.domain.ids import ModelId, TenantId
from vicinal.domain.request import Request
from vicinal.flow.fairness.none import NoFairness
from vicinal.flow.fairness.vtc import VirtualTokens
from vicinal.flow.flow import Flow, FlowRules
from vicinal.flow.lanes import LaneRule
from vicinal.flow.orderings.deadline import EarliestDeadline
from vicinal.flow.orderings.fcfs import FirstCome
from vicinal.flow.orderings.shortest import Shortest
from vicinal.flow.tenants import Tenants


class FairnessName(StrEnum):
    VTC = "vtc"
    LOCALITY = "locality"
    NONE = "none"


class OrderingName(StrEnum):
    FCFS = "fcfs"
    SHORTEST = "shortest"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """Counts and seconds as in `FlowRules` and `LaneRule`."""

    fairness: FairnessName = FairnessName.VTC
    ordering: OrderingName = OrderingName.FCFS
    deficit_tokens: float = 32768.0
    aging_rate: float = 0.1
    aged_share: float = 0.1
    aged_after: float = 0.25
    lanes: LaneRule = field(default_factory=LaneRule)


def make_flow(
    settings: FlowSettings, queue_max: int, tenants: Tenants, reusable_tokens: Callable[[Request], int]
) -> Flow:
    """`reusable_tokens` says how much of a prompt is there now, where most of it is."""

    def fairness(model: ModelId) -> Fairness:
        def weight(tenant: TenantId) -> float:
            return tenants.weight(tenant, model)

        match settings.fairness:
            case FairnessName.VTC:
                return VirtualTokens(weight)
            case FairnessName.LOCALITY:
                return VirtualTokens(
                    weight,
                    cached_weight=0.0,
                    deficit_tokens=settings.deficit_tokens,
                    reusable_tokens=reusable_tokens,
                )
            case FairnessName.NONE:
                return NoFairness()

    ordering = _ordering(settings)
    return Flow(FlowRules(queue_max, fairness, ordering, tenants, settings.aged_share, settings.aged_after))


def _ordering(settings: FlowSettings) -> Ordering:
    match settings.ordering:
        case OrderingName.FCFS:
            return FirstCome()
        case OrderingName.SHORTEST:
            return Shortest(settings.aging_rate)
        case OrderingName.DEADLINE:
            return EarliestDeadline()
