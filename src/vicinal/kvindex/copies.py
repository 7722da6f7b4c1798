"""The life of one copy of a block group at one endpoint: the states it can be in, and what moves it between them.

*Facts* come from the engine (stored, removed, ended). They cannot be refused, so every state has an answer to them.
*Claims* are decisions of ours: a planned request is expected to leave the blocks there, and reads those that are there
already; a copy to another endpoint leases what it reads. Nothing is leased that is not there: that is an error of
whoever asks, and `next_state` says so. A claim protects a copy from what vicinal gives up of its own accord; a stock
engine evicts what it likes, and then the fact stands.

Claims are counted by their owner (kvindex/run.py). The table hears of the first and of the last one that counts; of a
copy that is not there, only plans count. It hears again of a claim that still stands after a fact: removed while a plan
counts on it is `removed`, then `expected`; stored again while it is leased is `stored`, then `leased`.

GONE ends a copy together with its engine's incarnation (the epoch). A restarted engine has new copies, which begin
ABSENT; whatever still comes in about the old ones changes nothing.
"""

from enum import StrEnum


class CopyState(StrEnum):
    ABSENT = "absent"  # not there, may come
    FILLING = "filling"  # a planned request will make it
    READY = "ready"  # the engine says that it is there
    LEASED = "leased"  # there, and promised to a reader
    GONE = "gone"  # its incarnation is over


class CopyEvent(StrEnum):
    EXPECTED = "expected"  # the first plan counts on it
    LEASED = "leased"  # the first reader counts on it
    RELEASED = "released"  # the last claim that counts is over
    STORED = "stored"
    REMOVED = "removed"
    ENDED = "ended"


class IllegalCopyEventError(ValueError):
    """This event cannot happen to a copy in this state: whoever reported it has lost track of the copy."""

    def __init__(self, state: CopyState, event: CopyEvent) -> None:
        super().__init__(f"a copy that is {state} cannot be {event}")
        self.state = state
        self.event = event


_S, _E = CopyState, CopyEvent

# Per state: where each event leads; then the events that are legal and change nothing. The rest is illegal.
_TABLE: dict[CopyState, tuple[dict[CopyEvent, CopyState], set[CopyEvent]]] = {
    _S.ABSENT: ({_E.EXPECTED: _S.FILLING, _E.STORED: _S.READY, _E.ENDED: _S.GONE}, {_E.REMOVED, _E.RELEASED}),
    _S.FILLING: (
        {_E.RELEASED: _S.ABSENT, _E.STORED: _S.LEASED, _E.ENDED: _S.GONE},
        {_E.EXPECTED, _E.REMOVED},
    ),
    _S.READY: (
        {_E.EXPECTED: _S.LEASED, _E.LEASED: _S.LEASED, _E.REMOVED: _S.ABSENT, _E.ENDED: _S.GONE},
        {_E.STORED, _E.RELEASED},
    ),
    _S.LEASED: (
        {_E.RELEASED: _S.READY, _E.REMOVED: _S.ABSENT, _E.ENDED: _S.GONE},
        {_E.EXPECTED, _E.LEASED, _E.STORED},
    ),
    _S.GONE: ({}, {_E.STORED, _E.REMOVED, _E.ENDED, _E.RELEASED}),
}


def next_state(state: CopyState, event: CopyEvent) -> CopyState:
    """Where `event` takes a copy that is in `state`. Raises IllegalCopyEventError where the table has no entry."""
    moves, unmoved = _TABLE[state]
    if event in unmoved:
        return state
    try:
        return moves[event]
    except KeyError:
        raise IllegalCopyEventError(state, event) from None


def state_of(ready: bool, planned: bool, leased: bool) -> CopyState:
    """The state of a living copy, by what the index keeps of it: whether the engine has it, and which claims stand."""
    if ready:
        return CopyState.LEASED if planned or leased else CopyState.READY
    return CopyState.FILLING if planned else CopyState.ABSENT


def mermaid() -> str:
    """The table as a Mermaid state diagram. Events that change nothing are left out."""
    lines = ["stateDiagram-v2", f"    [*] --> {CopyState.ABSENT}"]
    for state, (moves, _) in _TABLE.items():
        lines += [f"    {state} --> {target}: {event}" for event, target in moves.items()]
    return "\n".join([*lines, f"    {CopyState.GONE} --> [*]", ""])
