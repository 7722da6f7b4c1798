"""The table of a request's life: complete, closed, and without a way back from its ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.scheduler.states import TRANSITIONS, IllegalMoveError, Move, State, after, diagram

ENDS = {State.DONE, State.SHED, State.FAILED, State.CANCELLED, State.ORPHANED}


@pytest.mark.mission("B11")
@given(st.sampled_from(State), st.sampled_from(Move))
def test_any_move_from_any_state_is_in_the_table_or_refused(state: State, move: Move) -> None:
    if move in TRANSITIONS[state]:
        assert after(state, move) is TRANSITIONS[state][move]
    else:
        with pytest.raises(IllegalMoveError, match=rf"{state} cannot {move}"):
            after(state, move)


def test_every_state_has_a_row_and_is_reached_from_received() -> None:
    assert set(TRANSITIONS) == set(State)
    reached = {State.RECEIVED}
    while more := {target for state in reached for target in TRANSITIONS[state].values()} - reached:
        reached |= more
    assert reached == set(State)


def test_just_the_five_ends_have_no_way_out() -> None:
    assert {state for state in State if state.final} == ENDS
    assert all(not TRANSITIONS[state] for state in ENDS)


@given(st.lists(st.sampled_from(Move), max_size=30))
def test_a_life_meets_one_end_at_most(moves: list[Move]) -> None:
    state, ends = State.RECEIVED, 0
    for move in moves:
        if move in TRANSITIONS[state]:
            state = after(state, move)
            ends += state.final
    assert ends == (state in ENDS)


def test_a_client_may_leave_and_a_gateway_die_in_every_state_but_the_ends() -> None:
    for state in set(State) - ENDS:
        assert after(state, Move.CANCEL) is State.CANCELLED
        assert after(state, Move.ORPHAN) is State.ORPHANED


def test_after_the_first_token_nothing_is_planned_again() -> None:
    assert Move.REPLAN not in TRANSITIONS[State.DECODING]


def test_the_diagram_shows_every_transition() -> None:
    lines = diagram().splitlines()
    for state, moves in TRANSITIONS.items():
        for move, target in moves.items():
            assert f"    {state} --> {target}: {move}" in lines
    assert sum("-->" in line for line in lines) == sum(map(len, TRANSITIONS.values())) + 1 + len(ENDS)
