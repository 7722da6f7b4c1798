"""Entries come in the order of (time, rank, entry), and a moved wake rings once."""

from hypothesis import given
from hypothesis import strategies as st

from vicinal.sim.agenda import Agenda, Rank, Wake


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(list(Rank)))))
def test_entries_come_by_time_then_rank_then_order(entries):
    agenda, seen = Agenda(), []
    for number, (at_s, rank) in enumerate(entries):
        agenda.add(float(at_s), rank, lambda now, number=number: seen.append((now, number)))
    while agenda.step():
        pass
    wanted = sorted((at_s, rank, number) for number, (at_s, rank) in enumerate(entries))
    assert seen == [(float(at_s), number) for at_s, _, number in wanted]


def test_an_entry_in_the_past_is_due_now():
    agenda, seen = Agenda(), []
    agenda.add(5.0, Rank.ARRIVAL, lambda _: agenda.add(1.0, Rank.NEWS, seen.append))
    agenda.step()
    agenda.step()
    assert seen == [5.0]


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1))
def test_a_wake_rings_once_at_its_last_time(times):
    agenda, rung = Agenda(), []
    wake = Wake(agenda, Rank.ENGINE, rung.append)
    for at_s in times:
        wake.at(at_s)
    while agenda.step():
        pass
    assert rung == ([] if times[-1] is None else [float(times[-1])])
