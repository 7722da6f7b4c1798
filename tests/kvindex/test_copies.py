"""The table of copy states: total, strict where it must be, and what the index really does."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.kvindex.copies import CopyEvent, CopyState, IllegalCopyEventError, mermaid, next_state
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex

FACTS = (CopyEvent.STORED, CopyEvent.REMOVED, CopyEvent.ENDED)
HELD = (CopyState.READY, CopyState.LEASED, CopyState.COPYING_OUT, CopyState.EVICTING)


@pytest.mark.mission("B11", "B16")
@given(st.sampled_from(CopyState), st.sampled_from(CopyEvent))
def test_any_event_in_any_state_leads_to_a_state_or_to_the_named_error(state, event):
    try:
        target = next_state(state, event)
    except IllegalCopyEventError as error:
        refused = (error.state, error.event)
        target = None
    assert target in CopyState if target is not None else refused == (state, event)
    assert target is not None or event not in FACTS


@pytest.mark.mission("B11", "B16")
@given(st.lists(st.sampled_from(CopyEvent)))
def test_a_copy_is_held_from_stored_until_removed_or_ended_whatever_else_happens(events):
    state, held, gone = CopyState.ABSENT, False, False
    for event in events:
        try:
            state = next_state(state, event)
        except IllegalCopyEventError:
            continue
        gone = gone or event is CopyEvent.ENDED
        if event in FACTS:
            held = event is CopyEvent.STORED and not gone
        assert (state in HELD) == held
        assert (state is CopyState.GONE) == gone


@pytest.mark.parametrize("state", [CopyState.LEASED, CopyState.COPYING_OUT])
def test_a_copy_that_somebody_reads_is_never_told_to_go(state):
    with pytest.raises(IllegalCopyEventError, match=f"a copy that is {state} cannot be eviction_started"):
        next_state(state, CopyEvent.EVICTION_STARTED)


@pytest.mark.parametrize("state", [CopyState.ABSENT, CopyState.FILLING, CopyState.EVICTING, CopyState.GONE])
@pytest.mark.parametrize("event", [CopyEvent.LEASED, CopyEvent.COPY_STARTED])
def test_nothing_is_read_that_is_not_there_to_stay(state, event):
    with pytest.raises(IllegalCopyEventError):
        next_state(state, event)


def test_the_diagram_shows_exactly_the_moves_of_the_table():
    arrows = [line.strip() for line in mermaid().splitlines()[1:]]
    moves = []
    for state in CopyState:
        for event in CopyEvent:
            try:
                target = next_state(state, event)
            except IllegalCopyEventError:
                continue
            if target is not state:
                moves.append(f"{state} --> {target}: {event}")
    assert mermaid().splitlines()[0] == "stateDiagram-v2"
    assert sorted(arrows) == sorted([*moves, "[*] --> absent", "gone --> [*]"])


LENGTH = 4
HASHES = chain(struct.pack(f"<{LENGTH}I", *range(LENGTH)), 1)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("expect", "unexpect", "store")), st.integers(1, LENGTH)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, LENGTH - 1))),
    ),
    max_size=30,
)


def leading(states: list[CopyState], *wanted: CopyState) -> int:
    return next((number for number, state in enumerate(states) if state not in wanted), len(states))


@pytest.mark.mission("B11", "B16")
@given(OPERATIONS)
def test_the_index_moves_copies_as_the_table_says(operations):
    index = BlockIndex(1)
    states = [CopyState.ABSENT] * LENGTH
    plans = [0] * LENGTH
    open_plans: list[int] = []
    for operation, amount in operations:
        if operation == "expect":
            index.expect(0, HASHES[: amount * 8])
            open_plans.append(amount)
            for block in range(amount):
                plans[block] += 1
                if plans[block] == 1:
                    states[block] = next_state(states[block], CopyEvent.EXPECTED)
        elif operation == "unexpect" and open_plans:
            amount = open_plans.pop(amount % len(open_plans))
            assert index.unexpect(0, HASHES[: amount * 8]) == amount
            for block in range(amount):
                plans[block] -= 1
                if plans[block] == 0:
                    states[block] = next_state(states[block], CopyEvent.ABANDONED)
        elif operation == "store":
            assert index.store(0, ROOT, HASHES[: amount * 8])
            states[:amount] = [next_state(state, CopyEvent.STORED) for state in states[:amount]]
        elif operation == "remove":
            index.remove(0, [unpack(HASHES)[block] for block in amount])
            for block in amount:
                states[block] = next_state(states[block], CopyEvent.REMOVED)
                if plans[block] and states[block] is CopyState.ABSENT:
                    states[block] = next_state(states[block], CopyEvent.EXPECTED)
        match = index.match(HASHES, 1)
        assert match.ready[0] == leading(states, CopyState.READY)
        assert match.expected[0] == leading(states, CopyState.READY, CopyState.FILLING)
        assert [index.holders(block) for block in unpack(HASHES)] == [state is CopyState.READY for state in states]
        known = [number for number, state in enumerate(states, 1) if state is not CopyState.ABSENT]
        assert len(index) == max(known, default=0)
        index.validate()
