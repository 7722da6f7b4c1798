"""Nobody starves, and nobody above pays more than the share that is set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flow.waiting import MODEL, flow, waiting
from vicinal.domain.band import Band
from vicinal.flow.aging import CREDIT_S, AgedTurns
from vicinal.flow.closed import Closed


@given(
    share=st.floats(0.01, 0.5),
    work=st.lists(st.tuples(st.floats(0.01, 20.0), st.booleans()), max_size=200),
)
def test_aged_work_gets_no_more_than_its_share(share: float, work: list[tuple[float, bool]]) -> None:
    aging = AgedTurns(share, after=0.0)
    aged_s = sent_s = 0.0
    oldest = waiting("old")
    for prefill_s, wanted in work:
        aged = wanted and aging.due(oldest, 0.0)
        aging.sent(prefill_s, aged=aged)
        sent_s += prefill_s
        aged_s += prefill_s * aged
        assert aged_s <= share * (sent_s + CREDIT_S) + 20.0 + 1e-6


@pytest.mark.mission("B5")
@pytest.mark.parametrize(("share", "turns"), [(0.0, 0), (0.1, 10), (0.25, 25)])
def test_a_lower_band_gets_its_share_under_full_load_of_a_higher_one(share: float, turns: int) -> None:
    queue = flow(aged_share=share, aged_after=0.25, queue_max=10_000)
    for n in range(200):
        queue.add(waiting(f"i{n}", "a", Band.INTERACTIVE, until_s=1e6))
        queue.add(waiting(f"b{n}", "b", Band.BATCH, until_s=100.0))
    served = []
    for _ in range(100):
        turn = queue.next(MODEL, Closed(), 0.0, 50.0)
        assert turn is not None
        queue.remove(turn.waiting.request.id)
        queue.sent(turn.waiting.request, 0, 1.0, aged=turn.aged)
        served.append(turn.waiting.request.band)
    assert served.count(Band.BATCH) == pytest.approx(turns, abs=1)


def test_who_has_not_waited_long_takes_no_turn() -> None:
    queue = flow(aged_share=0.5, aged_after=0.25)
    queue.add(waiting("i", "a", Band.INTERACTIVE))
    queue.add(waiting("b", "b", Band.BATCH, until_s=100.0))
    for now, first in ((24.9, "i"), (25.0, "b")):
        turn = queue.next(MODEL, Closed(), 0.0, now)
        assert turn is not None
        assert turn.waiting.request.id == first
        assert turn.aged == (first == "b")


def test_the_turn_of_a_band_that_is_kept_waiting_is_nobodys_loss() -> None:
    """Whoever goes because those above may not has not taken anything from them."""
    queue = flow(aged_share=0.1)
    queue.add(waiting("i", "a", Band.INTERACTIVE, pool="a"))
    queue.add(waiting("b", "b", Band.BATCH))
    closed = Closed()
    closed.close_pool("a", [waiting("x").lane])
    turn = queue.next(MODEL, closed, 0.0, 1e9)
    assert turn is not None
    assert (turn.waiting.request.id, turn.aged) == ("b", False)
