"""A silent fall-back of the fabric shows within a few transfers, as a price and as a warning (DESIGN 4)."""

import pytest

from tests.builders import racks, request
from tests.scheduler.play import Play, every, only
from vicinal.domain.decision import TERMS
from vicinal.domain.effects import Record, Warn
from vicinal.topology.graph import Level

TRANSFER_S = 4096 * 327_680 / 25e9
"""What an idle network of 25 GB/s interfaces promises for the KV of 4,096 tokens."""


def transfer(play: Play, name: str, times: float, late_s: float = 0.0) -> tuple[float, list[Warn]]:
    """One request whose transfer takes `times` what the links promise, and each of whose legs is `late_s` late: the
    transfer's price, and warnings."""
    arrived = only(Record, play.arrive(request(name))).decision
    prefill_s = sum(arrived.chosen.terms[TERMS.index(term)] or 0.0 for term in ("wait_prefill", "compute_prefill"))
    decision = only(Record, play.prefilled(name, prefill_s + late_s)).decision
    tracked = play.scheduler.requests[decision.request_id]
    assert tracked.transfer_promise_s is not None
    step_s = decision.chosen.terms[TERMS.index("first_step")] or 0.0
    effects = play.first_token(name, step_s + times * tracked.transfer_promise_s + late_s)
    play.finished(name, 0.5)
    price_s = decision.chosen.terms[TERMS.index("transfer_kv")]
    assert price_s is not None
    return price_s, every(Warn, effects)


@pytest.mark.mission("B3")
def test_transfers_50_times_slower_change_the_price_and_warn_within_three() -> None:
    play = Play(racks(1, 1, 1))
    for n in range(5):
        price_s, warnings = transfer(play, f"fast-{n}", 1.0)
        assert price_s == pytest.approx(TRANSFER_S + 10e-6, rel=0.01)
        assert warnings == []
    prices_s, warnings = zip(*(transfer(play, f"slow-{n}", 50.0) for n in range(8)), strict=True)
    assert [w.kind for few in warnings[:3] for w in few] == ["slow_path"], "once, and soon"
    assert not any(warnings[3:]), "and not again while it lasts"
    assert prices_s[3] > 9 * TRANSFER_S, "three slow transfers have made the path nine times dearer"
    assert list(prices_s) == sorted(prices_s)
    (warning,) = (w for few in warnings for w in few)
    assert warning.endpoint == "r1-d1"
    assert Level.LEAF.label in warning.text
    assert "RDMA" in warning.text


def test_a_rush_that_makes_every_leg_late_is_not_taken_for_a_slow_network() -> None:
    play = Play(racks(1, 1, 1))
    for n in range(40):
        price_s, warnings = transfer(play, f"a{n}", 1.0, late_s=min(n, 20) * 0.02)
        assert warnings == []
        assert price_s < 2.5 * TRANSFER_S
    for n in range(60):
        transfer(play, f"quiet-{n}", 1.0)
    warnings = [w for n in range(4) for w in transfer(play, f"slow-{n}", 50.0)[1]]
    assert [w.kind for w in warnings] == ["slow_path"], "and a real fall-back is seen when the rush is over"


@pytest.mark.mission("B3")
def test_a_slow_rack_is_avoided_and_tried_again_later() -> None:
    """Two racks; what is seen under a leaf is slow, so the spine, which nothing is known of, becomes the way."""
    play = Play(racks(2, 1, 1))
    for _ in range(4):
        play.scheduler.cost.speeds.observe(Level.LEAF, TRANSFER_S, 50 * TRANSFER_S, play.now)
    decision = only(Record, play.arrive(request("a"))).decision
    plan = decision.chosen.plan
    assert plan.prefill[:2] != plan.decode[:2], "not within a rack"
    play.gone("a")
    play.now += 3600.0
    plan = only(Record, play.arrive(request("b"))).decision.chosen.plan
    assert plan.prefill[:2] == plan.decode[:2]


def test_a_wait_for_memory_is_not_taken_for_a_slow_network() -> None:
    play = Play(racks(1, 1, 1, kv_blocks=300))
    for n in range(4):
        play.reported("r1-d1", running=0, kv_usage=0.0)
        play.arrive(request(f"a{n}"))
        for _ in range(2):
            play.reported("r1-d1", running=100, kv_usage=1.0)
        decision = only(Record, play.prefilled(f"a{n}", 0.17)).decision
        ready_s = decision.chosen.terms[TERMS.index("decode_ready")] or 0.0
        step_s = decision.chosen.terms[TERMS.index("first_step")] or 0.0
        assert ready_s > TRANSFER_S
        warned = every(Warn, play.first_token(f"a{n}", ready_s + step_s + TRANSFER_S))
        assert {warn.kind for warn in warned} <= {"pressure_hard"}
        play.finished(f"a{n}", 0.5)
