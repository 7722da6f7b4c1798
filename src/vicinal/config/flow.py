"""The section that says whose turn it is while not everybody can be served at once, and what too much is."""

from typing import Annotated

from msgspec import Meta, Struct

from vicinal.flow.admission.name import EarlyName
from vicinal.flow.breakers import BreakerRule
from vicinal.flow.lanes import LaneRule
from vicinal.flow.made import FairnessName, FlowSettings, OrderingName
from vicinal.flow.pressure.pressure import PressureRule
from vicinal.flow.retries import RetryRule

_FLOW = FlowSettings()
_LANES = LaneRule()
_PRESSURE = PressureRule()
_RETRIES = RetryRule()
_CIRCUITS = BreakerRule()
Share = Annotated[float, Meta(ge=0, le=1)]
Figure = Annotated[float, Meta(ge=0)]


class Flow(Struct, frozen=True, kw_only=True):
    """Whose turn it is while all endpoints have enough to do (flow.md), and what is too much (pressure.md)."""

    limit: Annotated[
        str,
        Meta(
            description="How much prefill work may wait in an engine's own queue: `fixed:seconds=1.0`, "
            "`gradient:start=1.0+least=0.25+most=4.0`, or `aimd:start=1.0`."
        ),
    ] = "fixed:seconds=1.0"
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
    pressure_sheds: Annotated[
        bool, Meta(description="Hard pressure refuses batch and background work that arrives; soft refuses copies.")
    ] = True
    pressure_dwell_s: Annotated[Figure, Meta(description="A level of pressure lasts for so long at least.")] = (
        _PRESSURE.dwell_s
    )
    pressure_soft_s: Annotated[
        Figure, Meta(description="What an endpoint under soft pressure costs more, in seconds.")
    ] = _PRESSURE.soft_s
    pressure_hard_s: Annotated[Figure, Meta(description="The same under hard pressure.")] = _PRESSURE.hard_s
    retry_share: Annotated[
        Share, Meta(description="Share of a tenant's requests that may be tried again after an engine failed.")
    ] = _RETRIES.share
    retry_least: Annotated[
        float,
        Meta(ge=0, le=_RETRIES.most, description="Retries that a tenant has that has sent nothing for a minute."),
    ] = _RETRIES.least
    circuit_failures: Annotated[
        int, Meta(ge=1, description="So many failed legs within `circuit_window_s` open an endpoint's circuit.")
    ] = _CIRCUITS.failures_max
    circuit_window_s: Annotated[float, Meta(gt=0, description="The window in which they are counted.")] = (
        _CIRCUITS.window_s
    )
    circuit_open_s: Annotated[
        float, Meta(gt=0, description="How long it is open at first; twice as long after each probe that fails.")
    ] = _CIRCUITS.open_s
    circuit_open_s_max: Annotated[float, Meta(gt=0, description="How long it is open at most.")] = _CIRCUITS.open_s_max
