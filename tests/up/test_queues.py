"""What operators are shown of queues, and what metrics say of them: rows of a scheduler that has work waiting."""

import pytest

from tests.builders import limited, racks, request
from tests.scheduler.play import Play, idle
from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.wiring import queues
from vicinal.wiring.queues import queue_gauges, shown_queues

ONE_SEQUENCE = racks(1, 1, 1, sequences_max=1)


def full() -> Play:
    """A fleet for one sequence, which `first` has; of others two tenants wait in one band and one in another."""
    play = Play(ONE_SEQUENCE, settings=limited(1.0))
    play.arrive(request("first", tenant="b"))
    play.prefilled("first", 0.5)
    play.first_token("first", 0.1)
    for name, tenant, service in (
        ("a1", "a", INTERACTIVE),
        ("a2", "a", INTERACTIVE),
        ("b1", "b", INTERACTIVE),
        ("c1", "c", BATCH),
    ):
        play.arrive(request(name, tenant=tenant, service=service), 1.0)
    return play


@pytest.mark.mission("B4")
def test_each_queue_has_a_row_and_its_first_says_what_it_waits_for() -> None:
    play = full()
    shown = shown_queues(play.scheduler, play.now + 0.5)
    by_tenant = {row["tenant"]: row for row in shown["queues"]}
    assert [row["tenant"] for row in shown["queues"]] == ["a", "b", "c"], "in the order of their turns"
    assert shown["queues_left_out"] == 0
    a, b, c = (by_tenant[tenant] for tenant in "abc")
    assert (a["band"], a["lane"], a["held"], a["weight"], a["in_flight"]) == ("interactive", "short", 2, 1.0, 0)
    assert a["oldest_s"] == pytest.approx(3.5)
    assert (a["next"], a["waits_for"]) == (True, "one that ends (r1-d1 runs 1 of 1 sequences)")
    assert (b["next"], b["waits_for"], b["in_flight"]) == (False, "its turn: tenant a goes first", 1)
    assert b["service"] >= a["service"], "it has had a turn"
    assert (c["band"], c["next"], c["waits_for"]) == ("batch", False, "its turn: band interactive goes first")


@pytest.mark.mission("B4")
def test_a_queue_behind_a_saturated_endpoint_says_when_it_opens() -> None:
    play = Play(racks(1, 1, 1), settings=limited(0.2))
    number = 0
    while not len(play.scheduler.turns.flow):
        play.arrive(request(f"r{number}", 4096))
        number += 1
    (row,) = shown_queues(play.scheduler, play.now)["queues"]
    assert row["waits_for"].startswith("r1-p1 to fall below 0.2 s of queued prefill, in ")
    at_s = play.scheduler.next_alarm()
    assert at_s is not None
    assert float(row["waits_for"].split()[-2]) == pytest.approx(at_s - play.now, abs=0.06)


def test_to_look_changes_nothing() -> None:
    """A page is asked for at any time: what is decided afterwards must not depend on it."""

    def told(look: bool) -> list[str]:
        play = full()
        said = []
        for current in ("first", "a1", "b1", "a2"):
            if look:
                shown_queues(play.scheduler, play.now)
                list(queue_gauges(play.scheduler, play.now))
            said.append(repr(play.finished(current, 1.0)))
            for name in play.scheduler.requests:
                if name not in play.scheduler.turns.flow:
                    play.prefilled(name, 0.5)
                    play.first_token(name, 0.1)
        return said

    assert told(True) == told(False)


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "ROWS_MAX", 5)
    play = full()
    for number in range(20):
        play.arrive(request(f"t{number}", tenant=f"t{number}"))
    shown = shown_queues(play.scheduler, play.now)
    assert (len(shown["queues"]), shown["queues_left_out"]) == (5, 18)


@pytest.mark.mission("B4")
def test_gauges_have_every_lane_and_are_zero_where_nothing_waits() -> None:
    play = full()
    gauges = {(gauge.band, gauge.lane): gauge for gauge in queue_gauges(play.scheduler, play.now)}
    assert len(gauges) == 10
    assert gauges["interactive", "short"].held == 3
    assert gauges["interactive", "short"].oldest_s == pytest.approx(3.0)
    assert gauges["batch", "short"].held == 1
    assert gauges["batch", "long"].held == gauges["batch", "long"].oldest_s == 0
    for name in list(play.scheduler.requests):
        play.gone(name)
    assert idle(play)
    assert sum(gauge.held + gauge.oldest_s for gauge in queue_gauges(play.scheduler, play.now)) == 0
