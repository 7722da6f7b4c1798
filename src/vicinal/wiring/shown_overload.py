"""What operators are shown of limits, pressure and circuits: in the state, and as metrics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vicinal.flow.pressure.standing import Standing
from vicinal.observe.read_gauge import Labels
from vicinal.scheduler.scheduler import Scheduler


def shown_endpoint(scheduler: Scheduler, slot: int) -> dict[str, Any]:
    overload = scheduler.overload
    return {"limit_s": float(overload.limit_s[slot]), "pressure": _shown(overload.pressure.of_slot(slot))}


def shown_models(scheduler: Scheduler) -> dict[str, Any]:
    pressure = scheduler.overload.pressure
    return {str(model): _shown(pressure.of_model(model)) for model in pressure.models}


def pressure_levels(scheduler: Scheduler) -> Mapping[Labels, float]:
    """0 for normal, 1 for soft, 2 for hard, by ("endpoint" or "model", its name)."""
    pressure, slots = scheduler.overload.pressure, scheduler.state.fleet.slots
    found: dict[Labels, float] = {
        ("model", str(model)): pressure.of_model(model).level.rank for model in pressure.models
    }
    return found | {("endpoint", str(name)): pressure.of_slot(slot).level.rank for name, slot in slots.items()}


def limit_seconds(scheduler: Scheduler) -> Mapping[Labels, float]:
    """In seconds, by endpoint."""
    limit_s = scheduler.overload.limit_s
    return {(str(name),): float(limit_s[slot]) for name, slot in scheduler.state.fleet.slots.items()}


def circuits(scheduler: Scheduler) -> Mapping[Labels, float]:
    """How many are not closed, by what they are of."""
    blame = scheduler.blame
    return {("endpoint",): len(blame.endpoints.left_out()), ("pair",): len(blame.pairs.left_out())}


def _shown(standing: Standing) -> dict[str, Any]:
    cause = standing.cause
    return {
        "level": standing.level,
        "since_s": standing.since_s if np.isfinite(standing.since_s) else None,
        "signal": None if cause is None else cause.signal,
        "value": None if cause is None or np.isnan(cause.value) else cause.value,
        "unknown": list(standing.unknown),
    }
