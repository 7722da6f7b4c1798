"""What operators see of limits, pressure and circuits."""

import pytest

from tests.builders import racks, request
from tests.scheduler.play import Play
from vicinal.domain.events import Measured
from vicinal.domain.ids import EndpointId, TenantId
from vicinal.domain.plan import Leg
from vicinal.domain.pressure import PressureLevel, Signal
from vicinal.observe.metrics import Metrics
from vicinal.wiring.shown import shown_state
from vicinal.wiring.shown_overload import circuits, limit_seconds, pressure_levels


@pytest.mark.mission("B7", "B15")
def test_levels_causes_limits_and_circuits_are_in_the_state_and_on_the_page() -> None:
    fleet = racks(1, 2, 2)
    play = Play(fleet)
    play.feed(Measured(Signal.COPY_QUEUE, EndpointId("r1-d1"), 12.0), 1.0)
    play.reported("r1-p1", 1.0)
    scheduler = play.scheduler
    for n in range(3):
        name = f"a{n}"
        play.arrive(request(name, tenant=TenantId(name)))
        first = scheduler.requests[name].plan.prefill  # type: ignore[index, union-attr]
        scheduler.blame.endpoints.failed(EndpointId("r1-p2"), scheduler.requests[name].id, "reset", play.now)  # type: ignore[index]
        play.failed(name, Leg.PREFILL)
        play.gone(name)
        play.reported(first)
    state = shown_state(scheduler, fleet, play.now)
    rows = {row["id"]: row for row in state["endpoints"]}
    assert rows["r1-d1"]["pressure"] == {
        "level": PressureLevel.SOFT,
        "since_s": 2.0,
        "signal": Signal.COPY_QUEUE,
        "value": 12.0,
        "unknown": ["event_lag", "ttft", "remote_read"],
    }
    assert rows["r1-p1"]["pressure"]["level"] is PressureLevel.NORMAL
    assert rows["r1-p1"]["pressure"]["since_s"] is None
    assert rows["r1-p1"]["limit_s"] == 1.0
    assert state["pressure"]["llama-3.1-70b"]["level"] is PressureLevel.SOFT, "one of two decode endpoints says so"
    assert {tuple(circuit["between"]) for circuit in state["circuits"]} >= {("r1-p2",)}

    metrics = Metrics()
    metrics.gauge("pressure_level", "", ("of", "name"), lambda: pressure_levels(scheduler))
    metrics.gauge("limit_seconds", "", ("endpoint",), lambda: limit_seconds(scheduler))
    metrics.gauge("circuits_open", "", ("of",), lambda: circuits(scheduler))
    page = metrics.expose().decode()
    assert 'vicinal_pressure_level{name="r1-d1",of="endpoint"} 1.0' in page
    assert 'vicinal_pressure_level{name="r1-p1",of="endpoint"} 0.0' in page
    assert 'vicinal_limit_seconds{endpoint="r1-p1"} 1.0' in page
    assert 'vicinal_circuits_open{of="pair"} 0.0' in page
