"""What goes wrong in a run, when, and how much: plain numbers, drawn from the run's seed."""

from dataclasses import dataclass

from vicinal.enginemodel.linkfaults import LinkFault


class FaultError(ValueError):
    """A fault of something that is not there, or of no size."""


@dataclass(frozen=True, slots=True)
class ReportFaults:
    """Reports reach the scheduler `delay_s` after the scrape and up to `jitter_s` more, drawn for each, so that with a
    jitter above the heartbeat they overtake each other. A share `lost` of them never comes."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class EventFaults:
    """KV events reach the scheduler `delay_s` after the fact, in order. `gaps_per_hour` is how often, per endpoint,
    some are lost beyond replay: then nothing is known of what the endpoint holds."""

    delay_s: float = 0.0
    gaps_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class Death:
    """An endpoint dies at `at_s`, with everything in it, and comes back empty at `back_s`; None for never."""

    endpoint: str
    at_s: float
    back_s: float | None = None


@dataclass(frozen=True, slots=True)
class Faults:
    """Everything that goes wrong in one run; nothing, by default."""

    reports: ReportFaults = ReportFaults()
    events: EventFaults = EventFaults()
    deaths: tuple[Death, ...] = ()
    links: tuple[LinkFault, ...] = ()
