"""Pressure in words: what an operator is told when a level changes, and a client that is refused because of one."""

from math import isnan

from vicinal.domain.effects import Warn
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.pressure import PressureLevel, Signal
from vicinal.flow.pressure.standing import Cause, Standing
from vicinal.flow.pressure.thresholds import THRESHOLDS

_SAYS = {
    Signal.QUEUE: "{:.1f} times its limit of prefill work waits",
    Signal.HBM: "{:.0%} of its KV blocks are in use",
    Signal.REPORT_AGE: "its reports are {:.1f} heartbeats old",
    Signal.EVENT_LAG: "its KV events come {:.1f} s late",
    Signal.TTFT: "{:.0%} of first tokens miss their objective",
    Signal.COPY_QUEUE: "copies wait for {:.1f} s",
    Signal.REMOTE_READ: "the p99 of reads from other engines is {:.2f} s",
}

_MEANS = {
    (PressureLevel.SOFT, False): "it is dearer now, and nothing is copied to it",
    (PressureLevel.HARD, False): "it is much dearer now, and nothing is copied to it",
    (PressureLevel.SOFT, True): "background work that arrives is refused",
    (PressureLevel.HARD, True): "batch and background work that arrives is refused",
}


def cause_words(cause: Cause) -> str:
    return f"{cause.signal} is not known now" if isnan(cause.value) else _SAYS[cause.signal].format(cause.value)


def warning(endpoint: EndpointId | None, model: ModelId | None, standing: Standing) -> Warn:
    """What to tell of an endpoint, or of a model, whose level has just become this one."""
    who, level, cause = endpoint or model, standing.level, standing.cause
    if cause is None:
        return Warn("pressure_over", endpoint, f"pressure on {who} is over")
    thresholds = THRESHOLDS[cause.signal]
    _, until = thresholds.soft if level is PressureLevel.SOFT else thresholds.hard
    unknown = f"; not known: {', '.join(standing.unknown)}" if standing.unknown else ""
    means = _MEANS[level, endpoint is None]
    text = f"{level} pressure on {who}: {cause_words(cause)} ({cause.signal}, over below {until:g}); {means}{unknown}"
    return Warn(f"pressure_{level}", endpoint, text)
