"""The posted price of prefill is that of the queues that newcomers meet, on endpoints that are there."""

import pytest

from tests.builders import endpoint, request
from tests.scheduler.play import Play
from vicinal.domain.endpoint import Endpoint, Role

pytestmark = pytest.mark.mission("C6")

DECODE = endpoint("d", Role.DECODE)


def price(play: Play, after_s: float = 0.0) -> float:
    scheduler = play.scheduler
    return scheduler.cost.posted_price(scheduler.state.view(play.now + after_s))


def test_a_dispatch_does_not_hide_the_queues_of_strangers() -> None:
    play = Play([endpoint("p", Role.PREFILL), DECODE])
    for _ in range(2):
        play.reported("p", 1.0, running=20)
    wait_s = float(play.scheduler.state.view(play.now).wait_prefill_s[0])
    assert wait_s > 0.0
    play.arrive(request("a"))
    assert price(play) == pytest.approx(wait_s / play.scheduler.cost.price.mean_service_s)


def pool(count: int) -> list[Endpoint]:
    return [*(endpoint(f"p{n}", Role.PREFILL) for n in range(count)), DECODE]


def test_endpoints_that_left_do_not_dilute_it() -> None:
    always_small, shrunk = Play(pool(1)), Play(pool(10))
    shrunk.fleet(pool(1))
    for play in (always_small, shrunk):
        for n in range(5):
            play.arrive(request(f"q{n}"))
    assert price(always_small, 1.0) > 0.0
    assert price(shrunk, 1.0) == pytest.approx(price(always_small, 1.0))


def test_the_profile_of_one_that_left_sets_no_objective() -> None:
    slow = "llama-3.1-70b-a100-tp8-vllm"
    play = Play([endpoint("p", Role.PREFILL, profile=slow), *pool(1)])
    fast = Play(pool(1)).scheduler.cost
    assert play.scheduler.cost.usual_prefill_s() > fast.usual_prefill_s()
    play.fleet(pool(1))
    assert play.scheduler.cost.usual_prefill_s() == fast.usual_prefill_s()
    assert play.scheduler.cost.pools.distinct_fits == fast.pools.distinct_fits


def test_endpoints_that_do_not_answer_do_not_dilute_it() -> None:
    alone, with_dead = Play(pool(1)), Play(pool(4))
    for name in ("p1", "p2", "p3"):
        with_dead.unreachable(name)
    for play in (alone, with_dead):
        for n in range(5):
            play.arrive(request(f"q{n}"))
    assert price(alone, 1.0) > 0.0
    assert price(with_dead, 1.0) == pytest.approx(price(alone, 1.0))
