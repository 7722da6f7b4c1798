"""How much pressure every endpoint and every model is under, and what follows from it.

All signals of all endpoints are one array, (signals, slots), NaN where unknown. A model has each signal's mean over
those of its endpoints that can say it, if that is half of a pool or more, of the pool (prefill or decode) in which it
is higher: a full decode pool is not made up for by an empty prefill pool.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.cluster.view import View
from vicinal.domain.effects import Warn
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.pressure import PressureLevel, Signal
from vicinal.flow.pressure.levels import Levels
from vicinal.flow.pressure.measured import Measurements
from vicinal.flow.pressure.missed import MissedShares
from vicinal.flow.pressure.standing import Cause, Standing
from vicinal.flow.pressure.thresholds import SIGNALS, called_for
from vicinal.flow.pressure.wording import warning

Floats = NDArray[np.float64]

KNOWN_SHARE = 0.5
"""Of a pool's endpoints that take work. What fewer of them say is nothing about the whole."""

_ROW = {signal: row for row, signal in enumerate(SIGNALS)}
_LEVELS = tuple(PressureLevel)


@dataclass(frozen=True, slots=True)
class PressureRule:
    """Signals are looked at every `every_s` at most; a level lasts for `dwell_s` at least. An endpoint costs `soft_s`
    more under soft pressure, and `hard_s` under hard."""

    every_s: float = 0.5
    dwell_s: float = 5.0
    soft_s: float = 0.5
    hard_s: float = 2.0


class Pressure:
    """`surcharge_s` is per slot what an endpoint costs more, None while nobody is under pressure."""

    def __init__(self, rule: PressureRule, heartbeat_s: float) -> None:
        self.rule = rule
        self.missed = MissedShares()
        self.measurements = Measurements()
        self.surcharge_s: Floats | None = None
        self._heartbeat_s = heartbeat_s
        self._due_s = -np.inf
        self._names: list[EndpointId] = []
        self._models: list[ModelId] = []
        self._pools = np.zeros((0, 0))
        self._of_slots = _Group(rule.dwell_s)
        self._of_models = _Group(rule.dwell_s)

    def fleet_changed(self, fleet: Fleet, left: Collection[int], names: Collection[EndpointId]) -> None:
        """The endpoints of the slots `left`, called `names`, are gone; others may have their slots."""
        slots = len(fleet)
        self.missed.resize(slots)
        self._of_slots.resize(slots)
        for slot in left:
            self.missed.forget(slot)
            self._of_slots.levels.forget(slot)
        for name in names:
            self.measurements.forget(name)
        self._names = [endpoint.id for endpoint in fleet.endpoints]
        self._models += sorted({e.model for e in fleet.endpoints} - set(self._models))
        self._of_models.resize(len(self._models))
        pools = [
            fleet.of_model(model) & of_role for of_role in (fleet.prefills, fleet.decodes) for model in self._models
        ]
        self._pools = np.array(pools, dtype=np.float64).reshape(len(pools), slots).T
        self._charge()

    def due(self, now: float) -> bool:
        return now >= self._due_s

    def look(self, view: View, limit_s: Floats, held_s: Callable[[ModelId], float], now: float) -> list[Warn]:
        """Read all signals. `held_s` says how many seconds of prefill of the upper bands wait here for a model. Returns
        a warning for each level that changed."""
        self._due_s = now + self.rule.every_s
        values = self._values(view, limit_s, now)
        found = self._of_slots.update(values, now)
        if len(found):
            self._charge()
        of_models = self._model_values(values, view, limit_s, held_s, now)
        warnings = [warning(self._names[slot], None, self.of_slot(slot)) for slot in found]
        changed = [self._models[row] for row in self._of_models.update(of_models, now)]
        return warnings + [warning(None, model, self.of_model(model)) for model in changed]

    def of_slot(self, slot: int) -> Standing:
        return self._of_slots.standing(slot)

    def of_model(self, model: ModelId) -> Standing:
        """A model that nobody serves is under no pressure."""
        if model not in self._models:
            return Standing(PressureLevel.NORMAL, -np.inf, None, SIGNALS)
        return self._of_models.standing(self._models.index(model))

    def level_of_model(self, model: ModelId) -> PressureLevel:
        return (
            _LEVELS[self._of_models.levels.rank[self._models.index(model)]]
            if model in self._models
            else PressureLevel.NORMAL
        )

    @property
    def models(self) -> tuple[ModelId, ...]:
        return tuple(self._models)

    def _charge(self) -> None:
        rank = self._of_slots.levels.rank
        charges_s = np.array([0.0, self.rule.soft_s, self.rule.hard_s])
        self.surcharge_s = charges_s[rank] if rank.any() else None

    def _values(self, view: View, limit_s: Floats, now: float) -> Floats:
        fleet = view.fleet
        values = np.full((len(SIGNALS), len(fleet)), np.nan)
        values[_ROW[Signal.QUEUE]] = view.wait_prefill_s / limit_s
        values[_ROW[Signal.HBM]] = np.where(
            np.isnan(view.reported_kv_usage), np.nan, np.minimum(view.blocks_in_use / fleet.kv_blocks, 1.0)
        )
        values[_ROW[Signal.REPORT_AGE]] = view.report_age_s / self._heartbeat_s
        values[_ROW[Signal.TTFT]] = self.missed.by_slot(now)
        for signal in SIGNALS:
            if signal.measured:
                self.measurements.by_slot(signal, fleet.slots, values[_ROW[signal]], now)
        values[:, ~view.usable] = np.nan
        return values

    def _model_values(
        self, values: Floats, view: View, limit_s: Floats, held_s: Callable[[ModelId], float], now: float
    ) -> Floats:
        known = ~np.isnan(values)
        sums, counts = np.where(known, values, 0.0) @ self._pools, known @ self._pools
        enough = (counts > 0) & (counts >= KNOWN_SHARE * (view.usable @ self._pools))
        means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=enough)
        models = len(self._models)
        found: Floats = np.fmax(means[:, :models], means[:, models:])
        room_s = np.where(view.usable, limit_s, 0.0) @ self._pools[:, :models]
        for row, model in enumerate(self._models):
            if room_s[row] > 0.0:
                found[_ROW[Signal.QUEUE], row] += held_s(model) / room_s[row]
            found[_ROW[Signal.TTFT], row] = self.missed.of_model(model, now)
        for signal in SIGNALS:
            if signal.measured and not np.isnan(value := self.measurements.of_all(signal, now)):
                found[_ROW[signal]] = value
        return found


class _Group:
    """Levels of several things, and the values that they were last read from."""

    def __init__(self, dwell_s: float) -> None:
        self.levels = Levels(dwell_s)
        self._values = np.full((len(SIGNALS), 0), np.nan)
        self._causes = np.zeros(0, dtype=np.intp)

    def resize(self, things: int) -> None:
        more = things - len(self.levels)
        self.levels.resize(things)
        self._values = np.append(self._values, np.full((len(SIGNALS), more), np.nan), axis=1)
        self._causes = np.append(self._causes, np.zeros(more, dtype=np.intp))

    def update(self, values: Floats, now: float) -> list[int]:
        """Returns the things whose level changed."""
        calls, keeps = called_for(values)
        kept = keeps.max(axis=0, initial=0)
        unknown = np.asarray(np.isnan(values).all(axis=0))
        rose, fell = self.levels.update(calls.max(axis=0, initial=0), kept, unknown, now)
        self._values = values
        speaks = (self.levels.rank > 0) & (kept >= self.levels.rank)
        self._causes = np.where(speaks, keeps.argmax(axis=0), self._causes)
        return sorted([*rose.tolist(), *fell.tolist()])

    def standing(self, thing: int) -> Standing:
        level = _LEVELS[self.levels.rank[thing]]
        values = self._values[:, thing]
        unknown = tuple(signal for signal in SIGNALS if np.isnan(values[_ROW[signal]]))
        row = self._causes[thing]
        cause = None if level is PressureLevel.NORMAL else Cause(SIGNALS[row], float(values[row]))
        return Standing(level, float(self.levels.since_s[thing]), cause, unknown)
