"""The section that says whose turn it is while not everybody can be served at once."""

from typing import Annotated

from msgspec import Meta, Struct

from vicinal.flow.admission.name import EarlyName
from vicinal.flow.lanes import LaneRule
from vicinal.flow.made import FairnessName, FlowSettings, OrderingName

_FLOW = FlowSettings()
_LANES = LaneRule()
Share = Annotated[float, Meta(ge=0, le=1)]
Figure = Annotated[float, Meta(ge=0)]


class Flow(Struct, frozen=True, kw_only=True):
    """Whose turn it is while all endpoints have enough to do (flow.md)."""

    saturated_s: Annotated[
        float,
        Meta(gt=0, description="An endpoint has enough to do when our prefill work would wait there for so long."),
    ] = 1.0
    fairness: Annotated[
        FairnessName,
        Meta(description="How tenants share a band: `vtc` by tokens served, `locality` lets cached prefixes go first."),
    ] = _FLOW.fairness
    deficit_tokens: Annotated[
        Figure, Meta(description="How far ahead of the others `locality` lets a tenant go, in computed tokens.")
    ] = _FLOW.deficit_tokens
    ordering: Annotated[
        OrderingName,
        Meta(description="Order of one tenant's requests: first come, shortest prefill, or earliest TTFT objective."),
    ] = _FLOW.ordering
    aging_rate: Annotated[
        Figure, Meta(description="With `shortest`, seconds of prefill that a second of waiting makes up for.")
    ] = _FLOW.aging_rate
    aged_share: Annotated[
        Share,
        Meta(description="Share of prefill seconds that long-waiting work of lower bands may take from higher ones."),
    ] = _FLOW.aged_share
    aged_after: Annotated[
        Share, Meta(description="It has waited long after this share of its longest wait (`wait_s_max`).")
    ] = _FLOW.aged_after
    early_rejection: Annotated[
        EarlyName,
        Meta(
            description="Refuse at arrival who cannot meet its objectives: `predicted` by the load when its prefill "
            "will end, `current` by that of now (which swings; for comparison)."
        ),
    ] = EarlyName.NONE
    long_prefill_s: Annotated[
        Figure, Meta(description="A prefill of fewer predicted seconds is never in the long lane.")
    ] = _LANES.long_prefill_s
    long_factor: Annotated[Figure, Meta(description="Nor is one of fewer times the usual prefill's seconds.")] = (
        _LANES.long_factor
    )
    long_share: Annotated[
        Share, Meta(description="Share of the endpoints that may prefill long ones at once; 1 is no bound.")
    ] = _LANES.long_share
