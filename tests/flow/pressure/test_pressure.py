"""Pressure of endpoints and models: each signal, what is unknown, what follows, and what is said of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.builders import endpoint, racks, report, request, scheduler
from vicinal.cluster.freshness import FreshnessRule
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Role
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.outcome import Ending
from vicinal.domain.pressure import PressureLevel, Signal
from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.flow.pressure.pressure import Pressure, PressureRule
from vicinal.flow.pressure.shedding import shed

MODEL = ModelId("llama-3.1-70b")
P1, D1 = EndpointId("r1-p1"), EndpointId("r1-d1")


class Fleet:
    """Two prefill and two decode endpoints that have reported at time 0, and their pressure."""

    def __init__(self, endpoints: list | None = None, **rule: float) -> None:
        self.fleet = racks(1, 2, 2) if endpoints is None else endpoints
        self.state = scheduler(self.fleet, freshness=FreshnessRule(heartbeat_s=1.0)).state
        self.pressure = Pressure(PressureRule(**rule), heartbeat_s=1.0)
        self.pressure.fleet_changed(self.state.fleet, [], [])
        self.limit_s = np.ones(len(self.fleet))
        self.held_s = 0.0

    def report(self, name: str, at_s: float, **figures: Any) -> None:
        self.state.apply_report(report(EndpointId(name), at_s, **figures))

    def look(self, now: float, fresh: bool = True, **view: Any) -> list[Warn]:
        """With `fresh`, all have just reported; `view` are arrays to put in its view."""
        if fresh:
            for one in self.fleet:
                self.report(one.id, now)
        seen = self.state.view(now)
        for name, values in view.items():
            seen = seen.__class__(**{f: values if f == name else getattr(seen, f) for f in seen.__struct_fields__})
        return self.pressure.look(seen, self.limit_s, lambda model: self.held_s, now)

    def level(self, name: str) -> PressureLevel:
        slot = self.state.slot(EndpointId(name))
        assert slot is not None
        return self.pressure.of_slot(slot).level

    @property
    def of_model(self) -> PressureLevel:
        return self.pressure.of_model(MODEL).level


@pytest.mark.mission("B7")
def test_without_pressure_nothing_is_said_and_nothing_is_dearer() -> None:
    fleet = Fleet()
    assert fleet.look(0.0) == []
    assert fleet.pressure.surcharge_s is None
    standing = fleet.pressure.of_model(MODEL)
    assert (standing.level, standing.cause) == (PressureLevel.NORMAL, None)
    assert set(standing.unknown) == {Signal.TTFT, Signal.EVENT_LAG, Signal.COPY_QUEUE, Signal.REMOTE_READ}


@pytest.mark.mission("B7")
def test_a_long_queue_in_one_engine_is_its_own_pressure_first() -> None:
    fleet = Fleet()
    (warn,) = fleet.look(0.0, wait_prefill_s=np.array([4.0, 0.0, 0.0, 0.0]))
    assert (warn.kind, warn.endpoint) == ("pressure_soft", P1)
    assert "4.0 times its limit of prefill work waits (queue, over below 1.5)" in warn.text
    assert "not known: event_lag, ttft, copy_queue, remote_read" in warn.text
    assert fleet.pressure.surcharge_s is not None
    assert fleet.pressure.surcharge_s.tolist() == [0.5, 0.0, 0.0, 0.0]
    assert fleet.of_model is PressureLevel.NORMAL
    (warn,) = fleet.look(1.0, wait_prefill_s=np.array([11.0, 0.0, 0.0, 0.0]))[:1]
    assert (warn.kind, warn.endpoint) == ("pressure_hard", P1)
    assert fleet.pressure.surcharge_s.tolist() == [2.0, 0.0, 0.0, 0.0]


def test_the_queue_is_measured_in_limits() -> None:
    fleet = Fleet()
    fleet.limit_s = np.array([0.25, 4.0, 1.0, 1.0])
    fleet.look(0.0, wait_prefill_s=np.array([1.0, 4.0, 0.0, 0.0]))
    assert [fleet.level(f"r1-p{n}") for n in (1, 2)] == [PressureLevel.SOFT, PressureLevel.NORMAL]


@pytest.mark.mission("B7")
def test_what_is_held_is_pressure_on_the_model() -> None:
    fleet = Fleet()
    fleet.held_s = 6.0
    (warn,) = fleet.look(0.0)
    assert (warn.kind, warn.endpoint) == ("pressure_soft", None)
    assert warn.text.startswith(f"soft pressure on {MODEL}: 3.0 times its limit of prefill work waits (queue, ")
    assert "background work that arrives is refused" in warn.text
    fleet.held_s = 20.0
    assert [w.kind for w in fleet.look(1.0)] == ["pressure_hard"]
    fleet.held_s = 0.0
    kinds = [warn.kind for n in range(24) for warn in fleet.look(1.5 + n / 2)]
    assert kinds == ["pressure_soft", "pressure_over"]
    assert fleet.of_model is PressureLevel.NORMAL


@pytest.mark.mission("B7")
def test_a_full_decode_pool_is_pressure_whatever_the_prefill_pool_has_free() -> None:
    fleet = Fleet()
    kv_blocks = fleet.state.fleet.kv_blocks
    found = fleet.look(0.0, blocks_in_use=kv_blocks * [0.0, 0.0, 0.95, 0.93])
    assert [(w.kind, w.endpoint) for w in found] == [
        ("pressure_soft", "r1-d1"),
        ("pressure_soft", "r1-d2"),
        ("pressure_soft", None),
    ]
    assert "94% of its KV blocks are in use (hbm, over below 0.8)" in found[-1].text


@pytest.mark.mission("C5")
def test_an_engine_that_does_not_say_how_full_it_is_is_not_taken_for_empty() -> None:
    fleet = Fleet()
    for at_s in (0.0, 0.1):
        fleet.report("r1-d1", at_s, kv_usage=None)
    fleet.look(0.1, fresh=False)
    slot = fleet.state.slot(D1)
    assert slot is not None
    assert Signal.HBM in fleet.pressure.of_slot(slot).unknown
    assert Signal.HBM not in fleet.pressure.of_slot(0).unknown


@pytest.mark.mission("B7")
def test_old_metadata_is_pressure_and_who_is_silent_for_too_long_keeps_its_level() -> None:
    fleet = Fleet()
    fleet.look(0.0)
    for one in ("r1-p2", "r1-d1", "r1-d2"):
        fleet.report(one, 4.0)
    assert [(w.kind, w.endpoint) for w in fleet.look(4.0, fresh=False)] == [("pressure_soft", P1)]
    assert [(w.kind, w.endpoint) for w in fleet.look(7.0, fresh=False)][:1] == [("pressure_hard", P1)]
    for n in range(40):
        for one in ("r1-p2", "r1-d1", "r1-d2"):
            fleet.report(one, 11.0 + n)
        fleet.look(11.0 + n, fresh=False)
    assert fleet.level("r1-p1") is PressureLevel.HARD, "nothing is known of it"
    assert len(fleet.pressure.of_slot(0).unknown) == len(Signal)
    assert fleet.of_model is PressureLevel.NORMAL, "who takes no work is no part of the whole"
    over = [w.kind for n in range(20) for w in fleet.look(51.0 + n)]
    assert over == ["pressure_soft", "pressure_over"]


@pytest.mark.mission("B7")
def test_missed_objectives_are_pressure_until_nobody_says_so_any_more() -> None:
    fleet = Fleet()
    for n in range(20):
        fleet.pressure.missed.add(MODEL, 0, n % 5 < 3, 0.0)
    found = fleet.look(0.0)
    assert [(w.kind, w.endpoint) for w in found] == [("pressure_hard", P1), ("pressure_hard", None)]
    assert "60% of first tokens miss their objective" in found[1].text
    kinds = [w.kind for n in range(100) for w in fleet.look(1.0 + n / 2)]
    assert sorted(kinds) == ["pressure_over"] * 2 + ["pressure_soft"] * 2, "an old share keeps up nothing"


@pytest.mark.mission("B7")
@pytest.mark.parametrize("signal", [signal for signal in Signal if signal.measured])
def test_what_is_measured_counts_for_one_or_for_all(signal: Signal) -> None:
    fleet = Fleet()
    fleet.pressure.measurements.take(signal, P1, 12.0, 0.0)
    found = fleet.look(0.0)
    assert [w.endpoint for w in found] == [P1, None], "one of two tells of the model too"
    fleet = Fleet(racks(1, 3, 3))
    fleet.pressure.measurements.take(signal, P1, 12.0, 0.0)
    assert [w.endpoint for w in fleet.look(0.0)] == [P1], "one of three does not"
    fleet = Fleet()
    fleet.pressure.measurements.take(signal, None, 12.0, 0.0)
    (warn,) = fleet.look(0.0)
    assert warn.endpoint is None
    assert f"({signal}, over below" in warn.text
    kind = "pressure_soft" if signal is Signal.COPY_QUEUE else "pressure_hard"
    assert warn.kind == kind, "copies that wait are no reason to turn clients away"


def test_models_do_not_share_a_level() -> None:
    others = [replace(one, id=EndpointId(f"x-{one.id}"), model=ModelId("other")) for one in racks(1, 1, 1)]
    fleet = Fleet([*racks(1, 1, 1), *others])
    found = fleet.look(0.0, wait_prefill_s=np.array([11.0, 0.0, 0.0, 0.0]))
    assert [(w.kind, w.endpoint) for w in found] == [("pressure_hard", P1), ("pressure_hard", None)]
    assert fleet.of_model is PressureLevel.HARD
    assert fleet.pressure.of_model(ModelId("other")).level is PressureLevel.NORMAL
    assert fleet.pressure.level_of_model(ModelId("other")) is PressureLevel.NORMAL
    assert fleet.pressure.of_model(ModelId("nobody's")).level is PressureLevel.NORMAL


def test_whoever_takes_a_slot_is_under_no_pressure() -> None:
    fleet = Fleet()
    fleet.look(0.0, wait_prefill_s=np.array([11.0, 0.0, 0.0, 0.0]))
    fleet.fleet = [endpoint("new", Role.PREFILL), *fleet.fleet[1:]]
    left = fleet.state.change_fleet(fleet.fleet)
    assert left == [0]
    fleet.pressure.fleet_changed(fleet.state.fleet, left, [P1])
    assert fleet.pressure.surcharge_s is None
    assert fleet.look(1.0) == []
    assert fleet.level("new") is PressureLevel.NORMAL


def test_a_fleet_of_nobody_can_be_looked_at() -> None:
    fleet = Fleet()
    left = fleet.state.change_fleet([])
    fleet.pressure.fleet_changed(fleet.state.fleet, left, [one.id for one in fleet.fleet])
    fleet.fleet = []
    assert fleet.look(1.0) == []


@pytest.mark.mission("B7")
def test_hard_pressure_turns_batch_and_copies_away_and_soft_only_copies() -> None:
    fleet = Fleet()
    interactive, batch = request("i", service=INTERACTIVE), request("b", service=replace(BATCH, wait_s_max=None))
    copy = request("c", copy_to=D1)
    slots = fleet.state.fleet.slots

    def turned_away() -> list[str]:
        return [str(one.id) for one in (interactive, batch, copy) if shed(one, slots, fleet.pressure)]

    fleet.look(0.0)
    assert turned_away() == []
    fleet.held_s = 6.0
    fleet.look(1.0)
    assert turned_away() == ["c"]
    fleet.held_s = 20.0
    fleet.look(2.0)
    assert turned_away() == ["b", "c"]
    assert shed(request("patient", service=BATCH), slots, fleet.pressure) is None, "it says how long it may wait"
    outcome = shed(batch, slots, fleet.pressure)
    assert outcome is not None
    assert (outcome.ending, outcome.detail) == (Ending.OVERLOADED, "queue")
    assert outcome.reason == (
        f"hard pressure on {MODEL}: 10.0 times its limit of prefill work waits; no batch work is taken now"
    )


def test_a_copy_is_turned_away_when_only_its_target_is_under_pressure() -> None:
    fleet = Fleet()
    kv_blocks = fleet.state.fleet.kv_blocks
    fleet.look(0.0, blocks_in_use=kv_blocks * [0.0, 0.0, 0.95, 0.0])
    slots = fleet.state.fleet.slots
    outcome = shed(request("c", copy_to=D1), slots, fleet.pressure)
    assert outcome is not None
    assert (outcome.ending, outcome.detail) == (Ending.OVERLOADED, "hbm")
    assert shed(request("c", copy_to=EndpointId("r1-d2")), slots, fleet.pressure) is None
    assert shed(request("c", copy_to=EndpointId("nobody")), slots, fleet.pressure) is None


def test_it_looks_only_so_often() -> None:
    fleet = Fleet(every_s=0.5)
    assert fleet.pressure.due(-1e9)
    fleet.look(1.0)
    assert not fleet.pressure.due(1.4)
    assert fleet.pressure.due(1.5)
