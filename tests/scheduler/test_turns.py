"""Turns at the scheduler: who is held while engines have enough to do, who goes first, and who is told no at once."""

import math
from dataclasses import replace

import pytest

from tests.builders import limited, racks, request
from tests.scheduler.play import Play, every, idle, only
from vicinal.domain.band import Band
from vicinal.domain.effects import Answer, Dispatch
from vicinal.domain.ids import EndpointId, ModelId, TenantId
from vicinal.domain.outcome import Ending
from vicinal.domain.request import BATCH, INTERACTIVE, ServiceClass
from vicinal.flow.admission.margin import SHARE_MAX
from vicinal.flow.admission.name import EarlyName
from vicinal.flow.tenants import Tenant
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.states import State
from vicinal.scheduler.tracked import Tracked

ONE_OF_EACH = racks(1, 1, 1)
LONG = 60_000
"""Tokens of a prompt that takes several seconds."""


def dispatched(effects: list) -> list[str]:
    return [dispatch.request_id for dispatch in every(Dispatch, effects)]


def saturated(**how: object) -> Play:
    """One prefill endpoint with more than a second of work."""
    play = Play(ONE_OF_EACH, **how)  # type: ignore[arg-type]
    for name in ("busy", "more"):
        assert dispatched(play.arrive(request(name, 16_000))) == [name]
    return play


@pytest.mark.mission("B4", "B7")
def test_work_waits_here_while_the_engine_has_enough_to_do_and_goes_when_it_has_not() -> None:
    play = saturated()
    assert play.arrive(request("held"), 0.0) == []
    assert play.scheduler.requests["held"].state is State.HELD
    at_s = play.scheduler.next_alarm()
    assert at_s is not None
    assert at_s < play.now + 3.0, "time alone makes its queue shorter, and nobody has to tell"
    effects = play.alarm()
    assert dispatched(effects) == ["held"]
    wait_s = float(play.scheduler.state.ledger.wait_s(play.now).max())
    assert wait_s > 0.0, "before the engine runs dry"


def test_without_a_limit_nothing_is_held() -> None:
    play = Play(ONE_OF_EACH, settings=limited(1e9))
    for n in range(10):
        assert dispatched(play.arrive(request(f"r{n}", 16_000))) == [f"r{n}"]


@pytest.mark.mission("A9")
def test_what_strangers_do_keeps_nobody_waiting() -> None:
    play = Play(ONE_OF_EACH)
    for _ in range(2):
        play.reported("r1-p1", 1.0, running=50, waiting=50)
    assert dispatched(play.arrive(request("a"))) == ["a"]


@pytest.mark.mission("B5")
def test_an_interactive_request_overtakes_batch_work() -> None:
    play = saturated()
    play.arrive(request("batch", service=BATCH))
    play.arrive(request("interactive"))
    order: list[str] = []
    for _ in range(20):
        order += dispatched(play.alarm())
        if {"batch", "interactive"} <= set(order):
            break
    assert order.index("interactive") < order.index("batch")


@pytest.mark.mission("B4")
def test_short_ones_pass_a_long_one_that_waits_for_another_long_one() -> None:
    play = Play(racks(1, 2, 2), settings=limited(1e9))
    for n in range(20):
        play.arrive(request(f"usual{n}", 2_000))
    assert dispatched(play.arrive(request("long", LONG))) == ["long"]
    assert dispatched(play.arrive(request("long too", LONG))) == []
    assert dispatched(play.arrive(request("short", 2_000))) == ["short"]
    assert dispatched(play.prefilled("long", 8.0))[-1:] == ["long too"]


@pytest.mark.mission("B6")
def test_a_tenant_that_sends_much_waits_for_one_that_sends_little() -> None:
    play = saturated()
    for n in range(5):
        play.arrive(request(f"much{n}", 8_000, tenant=TenantId("much")))
    play.arrive(request("little", 8_000, tenant=TenantId("little")))
    order: list[str] = []
    for _ in range(40):
        order += dispatched(play.alarm())
        if "little" in order:
            break
    assert sum(name.startswith("much") for name in order) <= 1


@pytest.mark.mission("B6")
def test_a_tenant_with_an_endpoint_of_its_own_is_not_kept_waiting_by_the_others() -> None:
    fleet = racks(1, 2, 1)
    play = Play(fleet, tenants=[Tenant(TenantId("own"), reserved_endpoints=(fleet[1].id,))])
    for n in range(4):
        play.arrive(request(f"r{n}", 16_000))
    assert len(play.scheduler.turns.flow), "the others have one endpoint, and that has enough to do"
    assert dispatched(play.arrive(request("mine", tenant=TenantId("own")))) == ["mine"]


@pytest.mark.mission("B5")
def test_a_class_says_how_long_its_requests_wait() -> None:
    patient = ServiceClass("patient", band=Band.BATCH, wait_s_max=100.0)
    play = Play(racks(1, 1, 1, sequences_max=1), settings=SchedulerSettings(hold_s_max=5.0))
    play.arrive(request("first"))
    play.prefilled("first", 0.5)
    play.first_token("first", 0.1)
    play.arrive(request("a"))
    play.arrive(request("b", service=patient))
    assert only(Answer, play.alarm()).request_id == "a"
    began_s = play.now
    assert only(Answer, play.alarm()).request_id == "b"
    assert play.now == pytest.approx(began_s + 95.0)
    assert idle(play) is False
    play.finished("first")
    assert idle(play)


def early(kind: EarlyName) -> Play:
    play = Play(ONE_OF_EACH, settings=SchedulerSettings(early_rejection=kind))
    for n in range(12):
        play.arrive(request(f"r{n}", 16_000, service=ServiceClass("slow", ttft_floor_s=1e6)))
    return play


@pytest.mark.mission("B7")
@pytest.mark.parametrize("kind", [EarlyName.CURRENT, EarlyName.PREDICTED])
def test_who_cannot_be_in_time_is_told_at_once(kind: EarlyName) -> None:
    play = early(kind)
    outcome = only(Answer, play.arrive(request("late", 4_000, service=INTERACTIVE))).outcome
    assert (outcome.ending, outcome.detail, outcome.ending.http_status) == (Ending.TOO_LATE, "ttft", 503)
    assert outcome.retry_after_s is not None
    assert outcome.retry_after_s > 1.0, "it is worth coming back when the work before it is done"
    assert "should come within" in outcome.reason


def test_a_class_that_waits_long_is_in_time_within_that() -> None:
    assert early(EarlyName.PREDICTED).arrive(request("patient", 4_000, service=BATCH)) == []


def test_nobody_is_refused_for_being_late_unless_that_is_set() -> None:
    assert early(EarlyName.NONE).arrive(request("late", 4_000)) == []


def test_with_a_higher_band_what_waits_below_is_not_in_front() -> None:
    urgent = ServiceClass("urgent", band=Band.SYSTEM, ttft_floor_s=4.0)
    assert not every(Answer, early(EarlyName.PREDICTED).arrive(request("urgent", 4_000, service=urgent)))


def test_nothing_rings_for_ever() -> None:
    """Alarms come to an end by themselves, however work is held."""
    play = early(EarlyName.NONE)
    rung = 0
    while (at_s := play.scheduler.next_alarm()) is not None and at_s < math.inf:
        play.alarm()
        rung += 1
        assert rung < 100
    assert not len(play.scheduler.turns.flow)


def test_a_fleet_that_is_idle_refuses_nobody_however_late_the_last_ones_were() -> None:
    play = Play(ONE_OF_EACH, settings=SchedulerSettings(early_rejection=EarlyName.PREDICTED))
    for n in range(60):
        assert dispatched(play.arrive(request(f"r{n}"))) == [f"r{n}"]
        play.prefilled(f"r{n}", 30.0)
        play.first_token(f"r{n}", 30.0)
        play.finished(f"r{n}", 1.0)
    assert play.scheduler.turns.early._of(request("x").model).margin.share == SHARE_MAX


@pytest.mark.mission("A8", "B7")
def test_what_another_model_has_to_do_makes_nobody_late() -> None:
    other = ModelId("other")
    theirs = [replace(one, id=EndpointId(f"other-{one.id}"), model=other) for one in ONE_OF_EACH]
    play = Play([*ONE_OF_EACH, *theirs], settings=SchedulerSettings(early_rejection=EarlyName.PREDICTED))
    for n in range(8):
        play.arrive(request(f"other{n}", 16_000, service=ServiceClass("slow", ttft_floor_s=1e6), model=other))
    assert len(play.scheduler.turns.flow), "the other model's endpoint has enough to do"
    outlook = play.scheduler.turns.early._outlook(play.scheduler.turns._waiting(tracked("mine"), play.now), play.now)
    assert (outlook.engine_wait_s, outlook.held_s, outlook.on_the_way, outlook.ahead) == (0.0, 0.0, 0, 0)
    assert dispatched(play.arrive(request("mine"))) == ["mine"]


def test_an_endpoint_that_does_not_answer_is_not_where_a_prefill_would_begin_at_once() -> None:
    play = Play(racks(1, 2, 1))
    for n in range(3):
        play.arrive(request(f"r{n}", 16_000))
    play.unreachable("r1-p2")
    view = play.scheduler.state.view(play.now)
    wait_s = float(view.wait_prefill_s[play.scheduler.state.slot(EndpointId("r1-p1"))])
    assert play.scheduler.turns._begins_s(request("x").model, play.now) == play.now + wait_s > play.now


@pytest.mark.mission("B8")
def test_a_copy_is_never_held_whatever_its_length() -> None:
    play = Play(racks(1, 2, 2), settings=limited(1e9))
    for n in range(20):
        play.arrive(request(f"usual{n}", 2_000))
    play.arrive(request("long", LONG))
    refused = play.arrive(request("copy", LONG, copy_to=EndpointId("r1-d1")))
    assert only(Answer, refused).outcome.ending is Ending.NO_ENDPOINT, "nobody has the prefix, and nobody waits for it"


def tracked(name: str) -> Tracked:
    return Tracked(request(name), arrived_s=0.0)
