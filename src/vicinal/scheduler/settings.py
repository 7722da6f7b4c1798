"""How the scheduler is set up: plain numbers, in one place."""

from dataclasses import dataclass, field

from vicinal.flow.admission.name import EarlyName
from vicinal.flow.made import FlowSettings
from vicinal.flow.tenants import Tenants
from vicinal.scheduler.overload import OverloadSettings


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """`attempts_max` counts the first. A held request is refused after `hold_s_max`, where its class says nothing else;
    at most `held_max` are held.

    A refused client is told to come back after `retry_after_s` and up to `retry_spread_s` more, drawn for each.
    Without `explain` a decision says which row was taken and nothing of the others: a simulation of many requests needs
    no more, and it decides the same.
    """

    attempts_max: int = 3
    hold_s_max: float = 30.0
    held_max: int = 4096
    early_rejection: EarlyName = EarlyName.NONE
    retry_after_s: float = 1.0
    retry_spread_s: float = 4.0
    local_prefill: bool = True
    explain: bool = True
    flow: FlowSettings = field(default_factory=FlowSettings)
    tenants: Tenants = field(default_factory=Tenants)
    overload: OverloadSettings = field(default_factory=OverloadSettings)
