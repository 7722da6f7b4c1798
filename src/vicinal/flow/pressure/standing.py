"""How much pressure something is under, and what says so."""

from msgspec import Struct

from vicinal.domain.pressure import PressureLevel, Signal


class Cause(Struct, frozen=True):
    """The signal that calls for a level or keeps it up, and its value; NaN when it has become unknown since."""

    signal: Signal
    value: float


class Standing(Struct, frozen=True):
    """Of one endpoint or model: its level, since when (-inf for always), by what, and which signals are unknown. There
    is no cause where there is no pressure."""

    level: PressureLevel
    since_s: float
    cause: Cause | None
    unknown: tuple[Signal, ...]
