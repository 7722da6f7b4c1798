"""The table of copy states: total, strict where it must be, and what the index really does."""

import struct
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.tier import Tier
from vicinal.kvindex.copies import CopyEvent, CopyState, IllegalCopyEventError, mermaid, next_state, state_of
from vicinal.kvindex.groups import Copy
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.run import HEAT_HALF_LIFE_S, Run, heat

FACTS = (CopyEvent.STORED, CopyEvent.REMOVED, CopyEvent.ENDED)
HELD = (CopyState.READY, CopyState.LEASED)


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


@pytest.mark.parametrize("state", [CopyState.ABSENT, CopyState.FILLING, CopyState.GONE])
def test_nothing_is_leased_that_is_not_there(state):
    with pytest.raises(IllegalCopyEventError, match=f"a copy that is {state} cannot be leased"):
        next_state(state, CopyEvent.LEASED)


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
CLAIMS = {"expect": "plan", "unexpect": "plan", "lease": "reader", "release": "reader"}
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from((*CLAIMS, "store", "store")), st.integers(1, LENGTH)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, LENGTH - 1))),
    ),
    max_size=30,
)


def leading(states: list[CopyState], *wanted: CopyState) -> int:
    return next((number for number, state in enumerate(states) if state not in wanted), len(states))


class Block:
    """One copy as the table sees it, with the claims that stand."""

    def __init__(self):
        self.state = CopyState.ABSENT
        self.claims = {"plan": 0, "reader": 0}

    def move(self, *events):
        for event in events:
            self.state = next_state(self.state, event)

    def claim(self, kind):
        self.claims[kind] += 1
        if self.claims[kind] == 1:
            self.move(CopyEvent.EXPECTED if kind == "plan" else CopyEvent.LEASED)

    def end_claim(self, kind):
        self.claims[kind] -= 1
        if not self.claims["plan"] and (self.state is CopyState.FILLING or not self.claims["reader"]):
            self.move(CopyEvent.RELEASED)

    def store(self):
        self.move(CopyEvent.STORED, *[CopyEvent.LEASED] * bool(self.claims["reader"]))

    def remove(self):
        self.move(CopyEvent.REMOVED, *[CopyEvent.EXPECTED] * bool(self.claims["plan"]))


@pytest.mark.mission("B11", "B14", "B16")
@settings(deadline=None)
@given(OPERATIONS)
def test_the_index_moves_copies_as_the_table_says(operations):
    index = BlockIndex(1)
    blocks = [Block() for _ in range(LENGTH)]
    claims = {"plan": [], "reader": []}
    for operation, amount in operations:
        if operation == "store":
            assert index.store(0, ROOT, HASHES[: amount * 8])
            for block in blocks[:amount]:
                block.store()
        elif operation == "remove":
            index.remove(0, [unpack(HASHES)[block] for block in amount])
            for block in amount:
                blocks[block].remove()
        else:
            kind = CLAIMS[operation]
            if operation in ("expect", "lease"):
                there = leading([block.state for block in blocks], *HELD)
                counted = amount if kind == "plan" else min(amount, there)
                assert getattr(index, operation)(0, HASHES[: amount * 8]) == counted
                claims[kind].append(counted)
                for block in blocks[:counted]:
                    block.claim(kind)
            elif claims[kind]:
                counted = claims[kind].pop(amount % len(claims[kind]))
                assert getattr(index, operation)(0, HASHES[: counted * 8]) == counted
                for block in blocks[:counted]:
                    block.end_claim(kind)
        states = [block.state for block in blocks]
        match = index.match(HASHES, 1)
        assert match.ready[0] == leading(states, *HELD)
        assert match.expected[0] == leading(states, *HELD, CopyState.FILLING)
        shown = [index.group(block) for block in unpack(HASHES)]
        assert [
            CopyState.ABSENT if group is None or not group.copies else group.copies[0].state for group in shown
        ] == states
        assert states == [
            state_of(block.state in HELD, block.claims["plan"] > 0, block.claims["reader"] > 0) for block in blocks
        ]
        known = [number for number, block in enumerate(blocks, 1) if block.state in HELD or any(block.claims.values())]
        assert len(index) == max(known, default=0)
        index.validate()


def test_a_group_says_where_it_is_who_claims_it_and_how_warm_it_is():
    index = BlockIndex(1)
    index.store(3, ROOT, HASHES)
    index.store(3, ROOT, HASHES[:16], Tier.HOST)
    index.expect(3, HASHES[:16], now=100.0)
    index.expect(1, HASHES[:16], now=100.0)
    assert index.lease(3, HASHES[:16]) == 2
    first, rest = index.groups({3: 7})
    names = unpack(HASHES)
    assert (first.first, first.last, first.blocks) == (names[0], names[1], 2)
    assert first.copies == (
        Copy(1, Tier.HBM, CopyState.FILLING, plans=1, readers=0),
        Copy(3, Tier.HBM, CopyState.LEASED, plans=1, readers=1, epoch=7),
        Copy(3, Tier.HOST, CopyState.LEASED, plans=0, readers=1, epoch=7),
    )
    assert rest.copies == (Copy(3, Tier.HBM, CopyState.READY, plans=0, readers=0, epoch=7),)
    assert (rest.warm_s, rest.heat(0.0)) == (-inf, 0.0)
    assert first.heat(100.0) == pytest.approx(2.0)
    assert index.group(names[3], {3: 7}) == rest
    assert index.group(99) is None


def test_heat_counts_requests_and_halves_with_time():
    run = Run(HASHES)
    assert heat(run.warm_s, 0.0) == 0.0
    for _ in range(3):
        run.warm(50.0)
    assert heat(run.warm_s, 50.0) == pytest.approx(3.0)
    assert heat(run.warm_s, 50.0 + HEAT_HALF_LIFE_S) == pytest.approx(1.5)
    run.warm(50.0 + HEAT_HALF_LIFE_S)
    assert heat(run.warm_s, 50.0 + HEAT_HALF_LIFE_S) == pytest.approx(2.5)
