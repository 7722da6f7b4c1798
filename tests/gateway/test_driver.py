"""The core's driver: order, one timer, the log."""

import asyncio

import pytest

from vicinal.clock import ModelClock
from vicinal.domain.effects import Answer, Warn
from vicinal.domain.events import AlarmRang, ClientGone, FirstToken, RequestArrived
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.request import INTERACTIVE, Request
from vicinal.gateway.driver import CoreDriver

REQUEST = Request("r", "m", "t", INTERACTIVE, 1, 1, b"", 1, 1)


class Rig:
    def __init__(self, scheduler, clock=None, perform=None) -> None:
        self.performed = []
        self.warned = []
        self.log = []
        self.scheduler = scheduler
        self.clock = clock or ModelClock(speed=50.0)
        self.driver = CoreDriver(
            scheduler,
            self.clock,
            asyncio.get_running_loop(),
            perform or self.performed.append,
            record=self.performed.append,
            observe=self.performed.append,
            warn=self.warned.append,
            capture=lambda event, now: self.log.append((event, now)),
        )


@pytest.fixture
def scheduler(kit):
    return kit.FakeScheduler()


async def test_effects_go_where_they_belong_and_arrivals_are_timed(scheduler) -> None:
    rig = Rig(scheduler)
    warning, answer = Warn("k", None, "t"), Answer("r", Outcome(Ending.DONE))
    scheduler.on(RequestArrived, lambda e: [warning, answer])
    rig.driver.post(RequestArrived(REQUEST))
    rig.driver.post(FirstToken("r", 1))
    assert (rig.performed, rig.warned) == ([answer], [warning])
    assert len(rig.driver.decision_us) == 1
    assert rig.driver.decision_us[0] > 0


async def test_events_posted_while_one_is_handled_wait_their_turn(scheduler) -> None:
    depth = []

    def perform(effect) -> None:
        depth.append(len(scheduler.events))
        rig.driver.post(ClientGone("r"))
        rig.driver.post(FirstToken("r", 1))
        assert len(scheduler.events) == 1

    rig = Rig(scheduler, perform=perform)
    scheduler.on(RequestArrived, lambda e: [Answer("r", Outcome(Ending.DONE))])
    rig.driver.post(RequestArrived(REQUEST))
    assert scheduler.kinds() == ["RequestArrived", "ClientGone", "FirstToken"]
    assert [(event, now) for event, now in rig.log] == list(zip(scheduler.events, scheduler.times, strict=True))


async def test_an_alarm_rings_once_and_not_before_its_time(scheduler) -> None:
    rig = Rig(scheduler)

    def ring(event):
        scheduler.alarm_s = None
        return []

    scheduler.on(AlarmRang, ring)
    scheduler.alarm_s = rig.clock.now() + 1.0
    wanted = scheduler.alarm_s
    rig.driver.post(ClientGone("r"))
    await scheduler.saw(AlarmRang)
    assert scheduler.times[-1] >= wanted
    assert rig.driver._timer is None
    assert scheduler.kinds() == ["ClientGone", "AlarmRang"]


async def test_there_is_one_timer_for_the_present_alarm(scheduler) -> None:
    rig = Rig(scheduler)
    scheduler.alarm_s = 1e6
    rig.driver.post(ClientGone("r"))
    far = rig.driver._timer
    rig.driver.post(ClientGone("r"))
    assert rig.driver._timer is far
    scheduler.alarm_s = 1e5
    rig.driver.post(ClientGone("r"))
    assert far.cancelled()
    scheduler.alarm_s = None
    near = rig.driver._timer
    rig.driver.post(ClientGone("r"))
    assert near.cancelled()
    assert rig.driver._timer is None


async def test_time_never_goes_back(scheduler) -> None:
    class Jumping(ModelClock):
        readings = iter([5.0, 3.0, 6.0])

        def now(self) -> float:
            return next(self.readings)

    rig = Rig(scheduler, Jumping())
    for _ in range(3):
        rig.driver.post(ClientGone("r"))
    assert scheduler.times == [5.0, 5.0, 6.0]


async def test_after_close_nothing_happens(scheduler) -> None:
    rig = Rig(scheduler)
    scheduler.alarm_s = 1e6
    rig.driver.post(ClientGone("r"))
    timer = rig.driver._timer
    rig.driver.close()
    rig.driver.post(ClientGone("r"))
    assert timer.cancelled()
    assert len(scheduler.events) == 1


async def test_a_failing_core_does_not_jam_the_driver(scheduler) -> None:
    rig = Rig(scheduler)

    def fails(event):
        raise RuntimeError("defect")

    scheduler.on(RequestArrived, fails)
    with pytest.raises(RuntimeError):
        rig.driver.post(RequestArrived(REQUEST))
    rig.driver.post(ClientGone("r"))
    assert scheduler.kinds() == ["RequestArrived", "ClientGone"]


def test_the_model_clock_runs_at_its_speed() -> None:
    import time

    origin = time.monotonic() - 10
    clock = ModelClock(3.0, origin)
    assert 30 <= clock.now() < 40
    assert clock.wall_delay(0.0) == 0.0
    assert 9990 - 10 / 3 * 3 < clock.wall_delay(30 + 3 * 10_000) <= 10_000
    with pytest.raises(ValueError, match="speed"):
        ModelClock(0)
