"""Limits, pressure, circuits and retries as events in and effects out."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.builders import endpoint, racks, request
from tests.scheduler.play import Play, every, idle, kinds, only
from vicinal.domain.decision import TERMS
from vicinal.domain.effects import Answer, Dispatch, Effect, Record, Warn
from vicinal.domain.endpoint import Role
from vicinal.domain.events import Measured
from vicinal.domain.ids import EndpointId, TenantId
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Leg
from vicinal.domain.pressure import PressureLevel, Signal
from vicinal.domain.request import BATCH
from vicinal.domain.verdict import Rule
from vicinal.flow.retries import RetryRule
from vicinal.scheduler.overload import OverloadSettings
from vicinal.scheduler.settings import SchedulerSettings

P1, D1 = EndpointId("r1-p1"), EndpointId("r1-d1")


def play(endpoints: list | None = None, **overload: object) -> Play:
    settings = SchedulerSettings(overload=OverloadSettings(**overload))  # type: ignore[arg-type]
    return Play(racks(1, 3, 3) if endpoints is None else endpoints, settings=settings)


def measured(one: Play, value: float | None, of: EndpointId | None = None, after_s: float = 1.0) -> list[Effect]:
    """The p99 of remote reads, which calls for hard pressure from 5 s on; it is looked at with the next event."""
    one.feed(Measured(Signal.REMOTE_READ, of, value), after_s)
    return one.reported("r1-d1", 1.0)


def pressure_of(effects: list[Effect]) -> float | None:
    return only(Record, effects).decision.chosen.terms[TERMS.index("pressure")]


@pytest.mark.mission("B7")
def test_an_engine_that_is_slower_than_predicted_may_have_less_waiting() -> None:
    one = play(racks(1, 1, 1), limit="gradient")
    for n in range(12):
        decision = only(Record, one.arrive(request(f"a{n}"))).decision
        one.prefilled(f"a{n}", 2 * decision.chosen.terms[TERMS.index("compute_prefill")])  # type: ignore[operator]
        one.gone(f"a{n}")
    limit_s = one.scheduler.overload.limit_s[0]
    assert 0.5 < limit_s < 0.7
    for n in range(20):
        if not every(Dispatch, one.arrive(request(f"b{n}"))):
            break
    view = one.scheduler.state.view(one.now)
    assert limit_s <= view.wait_prefill_s[0] < 1.0, "held from its own limit on"


@pytest.mark.mission("B7", "C4")
def test_an_endpoint_under_soft_pressure_is_dearer_and_the_record_says_so() -> None:
    one = play()
    (warn,) = every(Warn, measured(one, 2.0, P1))
    assert (warn.kind, warn.endpoint) == ("pressure_soft", P1)
    arrived = one.arrive(request("a"))
    assert only(Dispatch, arrived).endpoint != P1
    assert pressure_of(arrived) is None
    decision = only(Record, arrived).decision
    other = next(row for row in decision.others if row.plan.prefill == P1)
    assert other.terms[TERMS.index("pressure")] == 0.5
    assert other.total - decision.chosen.total == pytest.approx(0.5, abs=0.01)


@pytest.mark.mission("B7")
def test_when_all_are_under_pressure_the_price_is_paid() -> None:
    one = play(racks(1, 1, 1))
    for endpoint_id in (P1, D1):
        measured(one, 2.0 if endpoint_id == P1 else 9.0, endpoint_id)
    assert pressure_of(one.arrive(request("a"))) == 2.5


HURRIED = replace(BATCH, wait_s_max=None)
"""Batch work that does not say how long it may wait."""


@pytest.mark.mission("B7")
def test_hard_pressure_sheds_batch_that_arrives_and_nobody_else() -> None:
    one = play(racks(1, 1, 1, sequences_max=1))
    for _ in range(2):
        one.reported("r1-d1", running=1)
    held = request("held", service=HURRIED)
    assert one.arrive(held) == []
    one.feed(Measured(Signal.REMOTE_READ, None, 9.0), 1.0)
    for _ in range(2):
        changed = one.reported("r1-d1", 1.0, running=1)
        if every(Warn, changed):
            break
    (warn,) = every(Warn, changed)
    assert (warn.kind, warn.endpoint) == ("pressure_hard", None)
    shed = one.arrive(request("b", service=HURRIED))
    assert kinds(shed) == ["Answer", "RecordObservation"]
    outcome = only(Answer, shed).outcome
    assert (outcome.ending, outcome.ending.http_status, outcome.detail) == (Ending.OVERLOADED, 503, "remote_read")
    assert outcome.retry_after_s is not None
    assert "p99 of reads from other engines is 9.00 s; no batch work is taken now" in outcome.reason
    assert one.arrive(request("i")) == [], "it waits as always"
    assert one.arrive(request("patient", service=BATCH)) == [], "its class says how long it may wait"
    one.gone("patient")
    assert set(one.scheduler.requests) == {"held", "i"}
    assert only(Dispatch, one.reported("r1-d1", 0.1)).request_id == "i"


@pytest.mark.mission("B7")
def test_pressure_is_told_once_when_it_comes_and_once_when_it_goes() -> None:
    one = play()
    told = every(Warn, measured(one, 2.0))
    for _ in range(20):
        told += every(Warn, measured(one, 2.0))
    for _ in range(20):
        told += every(Warn, measured(one, 0.0))
    assert [warn.kind for warn in told] == ["pressure_soft", "pressure_over"]


def test_without_shedding_hard_pressure_only_warns() -> None:
    one = play(sheds=False)
    assert every(Warn, measured(one, 9.0))[0].kind == "pressure_hard"
    assert every(Dispatch, one.arrive(request("b", service=BATCH)))


@pytest.mark.mission("B7", "B8")
def test_soft_pressure_refuses_copies() -> None:
    one = play()
    measured(one, 2.0)
    outcome = only(Answer, one.arrive(request("c", copy_to=D1))).outcome
    assert (outcome.ending, outcome.detail) == (Ending.OVERLOADED, "remote_read")


@pytest.mark.mission("B7")
def test_late_first_tokens_are_pressure() -> None:
    one = play(racks(1, 1, 1))
    told: list[Warn] = []
    for n in range(12):
        one.arrive(request(f"a{n}"))
        one.prefilled(f"a{n}", 6.0)
        told += every(Warn, one.first_token(f"a{n}", 0.1))
        told += every(Warn, one.finished(f"a{n}", 0.5))
    hard = [warn for warn in told if warn.kind == "pressure_hard" and warn.endpoint is None]
    assert "100% of first tokens miss their objective" in hard[0].text


@pytest.mark.mission("B7")
def test_requests_that_waited_too_long_have_missed_their_objective() -> None:
    one = play(racks(1, 1, 1, sequences_max=1))
    for _ in range(2):
        one.reported("r1-d1", running=1)
    for n in range(10):
        one.arrive(request(f"a{n}"))
    one.alarm()
    assert one.scheduler.overload.pressure.missed.of_model(one.scheduler.state.fleet.endpoints[0].model, one.now) == 1.0


@pytest.mark.parametrize(
    ("signal", "value"), [(Signal.TTFT, 0.5), (Signal.REMOTE_READ, -1.0), (Signal.EVENT_LAG, float("inf"))]
)
def test_a_measurement_that_cannot_be_used_is_told_and_not_taken_in(signal: Signal, value: float) -> None:
    one = play()
    assert only(Warn, one.feed(Measured(signal, P1, value))).kind == "measured_unusable"
    assert every(Warn, one.reported("r1-d1", 1.0)) == []


def test_a_newcomer_in_a_slot_is_under_no_pressure_and_has_a_limit_of_its_own() -> None:
    one = play(limit="gradient")
    one.scheduler.overload.limit.failed(0, 0.0, 0.0)
    measured(one, 9.0, P1)
    one.fleet([endpoint("new", Role.PREFILL), *racks(1, 3, 3)[1:]])
    slot = one.scheduler.state.slot(EndpointId("new"))
    assert slot == 0
    assert one.scheduler.overload.limit_s[0] == 1.0
    assert one.scheduler.overload.pressure.of_slot(0).level is PressureLevel.NORMAL
    one.reported("new")
    assert pressure_of(one.arrive(request("a"))) is None


def failing(one: Play, times: int, *, who: str = "r1-p1", client_fault: bool = False) -> Iterator[list[Effect]]:
    """Requests whose prefill fails there; it reports again after each."""
    for n in range(times):
        name = f"f{n}-{one.now}"
        one.arrive(request(name, tenant=TenantId(name)))
        assert one.scheduler.requests[name].plan.prefill == who  # type: ignore[index, union-attr]
        effects = one.failed(name, Leg.PREFILL, 0.1, client_fault=client_fault)
        one.gone(name)
        yield effects
        one.reported(who, 0.1)


ONE_GOOD = [endpoint("r1-p1", Role.PREFILL), endpoint("far", Role.PREFILL, leaf="r2"), endpoint("r1-d1", Role.DECODE)]
"""r1-p1 is the cheaper one while it may be used."""


@pytest.mark.mission("B7")
def test_an_endpoint_whose_legs_go_on_failing_is_left_out_although_it_reports() -> None:
    one = play(ONE_GOOD)
    first, second, third = failing(one, 3)
    assert [w.kind for w in every(Warn, first) + every(Warn, second)] == ["leg_failed"] * 2, "a report cures one"
    assert [w.kind for w in every(Warn, third)] == ["leg_failed", "circuit_open"]
    arrived = one.arrive(request("a"), 1.0)
    decision = only(Record, arrived).decision
    assert only(Dispatch, arrived).endpoint == "far"
    (verdict,) = [v for v in decision.verdicts if v.endpoint == P1]
    assert (verdict.rule, verdict.rule.passing) == (Rule.CIRCUIT, True)
    assert verdict.reason == "has failed legs for 1 s, the last: connection reset"
    assert verdict.cure == "9 s, and a probe that works"


@pytest.mark.mission("B7")
def test_one_request_probes_it_and_its_success_closes_the_circuit() -> None:
    one = play(ONE_GOOD)
    list(failing(one, 3))
    one.alarm()
    probe = one.arrive(request("probe"))
    assert only(Dispatch, probe).endpoint == P1
    other = one.arrive(request("other"))
    assert only(Dispatch, other).endpoint == "far", "while the probe is under way"
    (verdict,) = [v for v in only(Record, other).decision.verdicts if v.endpoint == P1]
    assert verdict.cure == "its probe works"
    one.gone("other")
    one.prefilled("probe", 0.2)
    one.gone("probe")
    assert only(Dispatch, one.arrive(request("after"))).endpoint == P1
    one.gone("after")
    assert idle(one)


@pytest.mark.mission("B7")
@pytest.mark.parametrize("how", ["fails", "leaves"])
def test_a_probe_that_fails_opens_it_for_longer_and_one_that_leaves_makes_room_for_another(how: str) -> None:
    one = play(ONE_GOOD)
    list(failing(one, 3))
    one.alarm()
    one.arrive(request("probe"))
    if how == "fails":
        one.failed("probe", Leg.PREFILL)
        one.reported("r1-p1", 0.1)
        assert one.scheduler.blame.next_s() == pytest.approx(one.now + 19.9)
    else:
        one.gone("probe")
    assert (only(Dispatch, one.arrive(request("next"))).endpoint == P1) == (how == "leaves")


@pytest.mark.mission("B7")
def test_clients_faults_open_no_circuit() -> None:
    one = play(ONE_GOOD)
    list(failing(one, 20, client_fault=True))
    assert only(Dispatch, one.arrive(request("a"))).endpoint == P1


@pytest.mark.mission("B7")
def test_circuits_never_leave_nobody() -> None:
    one = play(racks(1, 1, 1))
    list(failing(one, 3))
    assert only(Dispatch, one.arrive(request("a"))).endpoint == P1


@pytest.mark.mission("B7")
def test_retries_draw_on_a_budget_of_the_tenant() -> None:
    one = play(racks(1, 4, 1), retries=RetryRule(share=0.1, least=1.0))
    one.arrive(request("a"))
    assert every(Dispatch, one.failed("a", Leg.PREFILL)), "a lone request can be tried again"
    ended = one.failed("a", Leg.PREFILL)
    outcome = only(Answer, ended).outcome
    assert (outcome.ending, outcome.detail) == (Ending.ENGINE_FAILED, "retry_budget")
    assert outcome.reason == (
        "2 attempts failed; the last: connection reset; it was not tried again, because the retry budget of default is "
        "used up"
    )
    assert outcome.retry_after_s is not None
    for name in ("r1-p1", "r1-p2", "r1-p3", "r1-p4"):
        one.reported(name, 0.1)
    one.arrive(request("b", tenant=TenantId("another")))
    assert every(Dispatch, one.failed("b", Leg.PREFILL)), "another tenant has its own"
    one.gone("b")
    assert idle(one)


@pytest.mark.mission("B7")
def test_a_storm_of_failures_is_tried_again_a_tenth_of_the_time() -> None:
    one = play(racks(1, 4, 1), retries=RetryRule(share=0.1, least=1.0, most=5.0))
    dispatched = 0
    for n in range(100):
        name = f"s{n}"
        dispatched += len(every(Dispatch, one.arrive(request(name), 0.1)))
        while name in one.scheduler.requests:
            dispatched += len(every(Dispatch, one.failed(name, Leg.PREFILL)))
            for who in ("r1-p1", "r1-p2", "r1-p3", "r1-p4"):
                one.reported(who)
    assert 105 <= dispatched <= 100 + 10 + 2


def test_rules_of_two_schedulers_are_their_own() -> None:
    settings = OverloadSettings(limit="gradient")
    one, other = play(limit="gradient"), play(limit=settings.limit)
    one.scheduler.overload.limit.failed(0, 0.0, 0.0)
    assert other.scheduler.overload.limit_s[0] == 1.0
    assert replace(settings, sheds=False).limit == "gradient"
