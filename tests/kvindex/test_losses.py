"""The log of lost blocks, against a log that forgets nothing."""

from hypothesis import given
from hypothesis import strategies as st

from vicinal.kvindex import losses
from vicinal.kvindex.losses import Losses

EVENTS = st.lists(st.integers(1, 6) | st.just("all") | st.just("mark"), max_size=60)


@given(events=EVENTS, block=st.integers(1, 6))
def test_between_two_marks_a_block_is_lost_exactly_when_an_event_said_so(events: list[int | str], block: int) -> None:
    log, told, marks = Losses(), list[int | str](), [(0, 0)]
    for event in events:
        if event == "mark":
            marks.append((log.mark(3), len(told)))
        elif event == "all":
            log.note_all(3)
            told.append(event)
        else:
            log.note(3, [int(event)])
            told.append(event)
    marks.append((log.mark(3), len(told)))
    for start, start_at in marks:
        for stop, stop_at in marks:
            between = told[start_at:stop_at]
            # Only the last clearing is remembered: an older one in the window hides behind a newer one after it.
            cleared = "all" in between and "all" not in told[stop_at:]
            if cleared or block in between:
                assert log.between(3, block, start, stop)
            elif "all" not in between and stop >= start:
                assert not log.between(3, block, start, stop)
        assert log.between(3, block, start) == (block in told[start_at:] or "all" in told[start_at:])
    assert not log.between(4, block, 0)


def test_what_it_has_forgotten_is_taken_for_lost() -> None:
    log = Losses()
    mark = log.mark(0)
    log.note(0, range(1, 2 * losses.KEPT + 1))
    assert log.between(0, 999_999, mark)
    late = log.mark(0)
    log.note(0, [5])
    assert log.between(0, 5, late)
    assert not log.between(0, 6, late)


def test_a_slot_that_changes_hands_answers_no_old_mark() -> None:
    log = Losses()
    mark = log.mark(0)
    log.forget(0)
    assert log.between(0, 1, mark)
    assert not log.between(0, 1, log.mark(0))
