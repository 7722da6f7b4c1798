"""Whose turn it is, against a naive twin that sorts everything each time; and what happens when the queue is full."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flow.waiting import MODEL, flow, waiting
from vicinal.contracts.flow import Waiting
from vicinal.domain.band import Band
from vicinal.domain.ids import RequestId, TenantId
from vicinal.domain.lane import Lane
from vicinal.flow.closed import Closed
from vicinal.flow.flow import Flow
from vicinal.flow.made import FairnessName, OrderingName
from vicinal.flow.tenants import Tenant, Tenants


def names(queue: Flow, now: float = 0.0, begins_s: float = 0.0) -> list[str]:
    """Everybody in the order of their turns; nothing is charged."""
    order = []
    while (turn := queue.next(MODEL, Closed(), begins_s, now)) is not None:
        order.append(turn.waiting.request.id)
        queue.remove(turn.waiting.request.id)
    return order


def filled(*members: Waiting, **settings: object) -> Flow:
    queue = flow(**settings)  # type: ignore[arg-type]
    for member in members:
        assert queue.add(member) is None
    return queue


@dataclass(frozen=True)
class Step:
    """Add one with these figures, or take away the one at this place, or the next in turn."""

    what: str
    tenant: str
    band: Band
    lane: Lane
    prefill_s: int
    place: int


STEPS = st.lists(
    st.builds(
        Step,
        what=st.sampled_from(["add", "add", "add", "remove", "next"]),
        tenant=st.sampled_from("abc"),
        band=st.sampled_from(list(Band)),
        lane=st.sampled_from(list(Lane)),
        prefill_s=st.integers(1, 9),
        place=st.integers(0, 50),
    ),
    max_size=60,
)


@pytest.mark.mission("B4", "B5")
@given(steps=STEPS, ordering=st.sampled_from(list(OrderingName)))
def test_turns_are_those_of_a_twin_that_sorts(steps: list[Step], ordering: OrderingName) -> None:
    """Strict bands, no aging, tenants by their oldest: band, then the older head of all, each tenant in its order."""
    queue = flow(fairness=FairnessName.NONE, ordering=ordering, aged_share=0.0)
    there: dict[str, Waiting] = {}

    def key(one: Waiting) -> tuple[float, float]:
        keys = {
            OrderingName.FCFS: one.since_s,
            OrderingName.SHORTEST: one.prefill_s + 0.1 * one.since_s,
            OrderingName.DEADLINE: one.due_s,
        }
        return keys[ordering], one.since_s

    def twin() -> str | None:
        band = min((one.request.band.rank for one in there.values()), default=None)
        heads = {}
        for one in there.values():
            at = one.lane, one.request.tenant
            if one.request.band.rank == band and (at not in heads or key(one) < key(heads[at])):
                heads[at] = one
        return min(heads.values(), key=lambda head: head.since_s).request.id if heads else None

    for number, step in enumerate(steps):
        if step.what == "add":
            one = waiting(
                f"r{number}",
                step.tenant,
                step.band,
                step.lane,
                since_s=float(number),
                prefill_s=float(step.prefill_s),
                due_s=1e6 + step.prefill_s * 7 % 5,
            )
            there[one.request.id] = one
            assert queue.add(one) is None
        elif step.what == "remove" and there:
            gone = list(there)[step.place % len(there)]
            assert queue.remove(RequestId(gone)) is there.pop(gone)
        elif step.what == "next" and there:
            turn = queue.next(MODEL, Closed(), 0.0, 1e3)
            assert turn is not None
            assert turn.waiting.request.id == twin()
            del there[turn.waiting.request.id]
            queue.remove(turn.waiting.request.id)
        assert len(queue) == queue.waiting_for(MODEL) == len(there)
        assert queue.prefill_s(MODEL) == pytest.approx(sum(one.prefill_s for one in there.values()))
        assert {one.request.id for one in queue} == set(there)


def test_a_request_that_does_not_wait_is_removed_without_harm() -> None:
    assert filled(waiting("a")).remove(RequestId("b")) is None


@pytest.mark.mission("B5")
def test_bands_are_strict() -> None:
    members = [waiting(band.value, band=band, since_s=float(-band.rank)) for band in reversed(Band)]
    assert names(filled(*members)) == [band.value for band in Band]


def test_a_client_orders_its_own_requests_and_nobody_elses() -> None:
    queue = filled(
        waiting("late but dear", "a", priority=-5, since_s=3.0),
        waiting("first of a", "a", since_s=1.0),
        waiting("of b", "b", since_s=2.0),
        fairness=FairnessName.NONE,
    )
    assert names(queue) == ["of b", "late but dear", "first of a"]


@pytest.mark.mission("B4")
def test_a_closed_lane_keeps_nobody_in_the_other_waiting() -> None:
    queue = filled(waiting("long", lane=Lane.LONG), waiting("short", since_s=1.0))
    closed = Closed()
    closed.close_lane(Lane.LONG)
    turn = queue.next(MODEL, closed, 0.0, 0.0)
    assert turn is not None
    assert turn.waiting.request.id == "short"


@pytest.mark.mission("B6")
def test_who_has_places_of_its_own_is_not_kept_waiting_by_the_others() -> None:
    queue = filled(waiting("others", "a"), waiting("own", "b", since_s=1.0, pool="b"))
    closed = Closed()
    closed.close_pool("", Lane)
    turn = queue.next(MODEL, closed, 0.0, 0.0)
    assert turn is not None
    assert turn.waiting.request.id == "own"


@pytest.mark.mission("B4")
def test_late_ones_give_way_to_those_who_can_be_in_time() -> None:
    queue = filled(
        waiting("late", since_s=0.0, prefill_s=1.0, due_s=5.0),
        waiting("in time", since_s=1.0, prefill_s=1.0, due_s=9.0),
    )
    assert names(queue, begins_s=6.0) == ["in time", "late"], "nobody is forgotten"


def test_deadlines_are_told_in_order_and_only_of_those_that_wait() -> None:
    queue = filled(*(waiting(f"r{n}", until_s=10.0 - n) for n in range(5)))
    assert queue.next_deadline_s() == 6.0
    queue.remove(RequestId("r4"))
    assert queue.next_deadline_s() == 7.0
    assert [one.request.id for one in queue.expired(8.5)] == ["r3", "r2"]
    assert len(queue) == 4, "they wait until they are removed"


@pytest.mark.mission("B6")
def test_a_full_queue_turns_away_whoever_has_most_waiting() -> None:
    queue = filled(*(waiting(f"a{n}", "a", since_s=float(n)) for n in range(3)), waiting("b0", "b"), queue_max=4)
    out = queue.add(waiting("b1", "b", since_s=9.0))
    assert out is not None
    assert out.request.id == "a2", "the newest of the tenant that floods, not the newcomer"
    queue.remove(out.request.id)
    assert len(queue) == 4


def test_a_full_queue_turns_away_lower_bands_first() -> None:
    queue = filled(
        *(waiting(f"i{n}", "a", Band.INTERACTIVE) for n in range(3)), waiting("old", "b", Band.BATCH), queue_max=4
    )
    assert queue.add(waiting("new", "a", Band.INTERACTIVE)).request.id == "old"  # type: ignore[union-attr]
    queue.remove(RequestId("old"))
    late = waiting("newcomer", "c", Band.BATCH)
    assert queue.add(late) is late


@pytest.mark.mission("B6")
def test_weights_count_when_the_queue_is_full() -> None:
    tenants = Tenants([Tenant(TenantId("a"), weight=10.0)])
    queue = filled(*(waiting(f"a{n}", "a") for n in range(3)), waiting("b0", "b"), queue_max=4, tenants=tenants)
    newcomer = waiting("b1", "b", since_s=1.0)
    assert queue.add(newcomer) is newcomer


def test_what_goes_first_is_shared_as_by_processor_sharing() -> None:
    """b has 1 s of its own in front; a gets as much as b until then, c all of its half second; above goes all."""
    queue = filled(
        *(waiting(f"a{n}", "a", prefill_s=1.0) for n in range(9)),
        waiting("b0", "b", prefill_s=1.0),
        waiting("c0", "c", prefill_s=0.5),
        waiting("i0", "c", Band.INTERACTIVE, prefill_s=3.0),
    )
    seconds, number = queue.ahead_of(waiting("b1", "b", prefill_s=1.0))
    assert seconds == pytest.approx(2.0 + 1.0 + 0.5 + 3.0)
    assert number == 2 + 1 + 1 + 1
