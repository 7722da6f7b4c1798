"""The life of one copy of a block group at one endpoint: the states it can be in, and what moves it between them.

Three kinds of events meet here.
*Facts* come from the engine (stored, removed, ended). They cannot be refused, so every state has an answer to them.
*Starts* are decisions of ours (expected, leased, copy_started, eviction_started). Where one makes no sense it is an
error in vicinal, and `next_state` says so: a copy that somebody reads is never evicted by us, and nothing is read that
is not there.
*Ends* close a start (abandoned, released, copy_ended, eviction_cancelled). A fact may have overtaken them, so outside
their own state they change nothing; only an `abandoned` without any plan is an error.

Claims of one kind on a copy (plans that fill it, leases, readers) are counted by their owner. The table hears of the
first and the last, and again of a claim that still stands after the state fell back: removed while a plan counts on it
is `removed`, then `expected`.

GONE ends a copy together with its engine's incarnation (the epoch). A restarted engine has new copies, which begin
ABSENT; whatever still comes in about the old ones changes nothing.
"""

from enum import StrEnum


class CopyState(StrEnum):
    ABSENT = "absent"  # not there, may come
    FILLING = "filling"  # a planned request will make it
    READY = "ready"  # the engine says that it is there
    LEASED = "leased"  # there, and promised to a reader that has not begun
    COPYING_OUT = "copying_out"  # there, and being read over the network
    EVICTING = "evicting"  # there, and told to go
    GONE = "gone"  # its incarnation is over


class CopyEvent(StrEnum):
    EXPECTED = "expected"
    ABANDONED = "abandoned"
    STORED = "stored"
    LEASED = "leased"
    RELEASED = "released"
    COPY_STARTED = "copy_started"
    COPY_ENDED = "copy_ended"
    EVICTION_STARTED = "eviction_started"
    EVICTION_CANCELLED = "eviction_cancelled"
    REMOVED = "removed"
    ENDED = "ended"


class IllegalCopyEventError(ValueError):
    """This event cannot happen to a copy in this state: whoever reported it has lost track of the copy."""

    def __init__(self, state: CopyState, event: CopyEvent) -> None:
        super().__init__(f"a copy that is {state} cannot be {event}")
        self.state = state
        self.event = event


_S, _E = CopyState, CopyEvent
_UNMOVED_BY_ENDS = {_E.RELEASED, _E.COPY_ENDED, _E.EVICTION_CANCELLED}

# Per state: where each event leads; then the events that are legal and change nothing. The rest is illegal.
_TABLE: dict[CopyState, tuple[dict[CopyEvent, CopyState], set[CopyEvent]]] = {
    _S.ABSENT: (
        {_E.EXPECTED: _S.FILLING, _E.STORED: _S.READY, _E.ENDED: _S.GONE},
        {_E.REMOVED, *_UNMOVED_BY_ENDS},
    ),
    _S.FILLING: (
        {_E.ABANDONED: _S.ABSENT, _E.STORED: _S.READY, _E.ENDED: _S.GONE},
        {_E.EXPECTED, _E.REMOVED, *_UNMOVED_BY_ENDS},
    ),
    _S.READY: (
        {
            _E.LEASED: _S.LEASED,
            _E.COPY_STARTED: _S.COPYING_OUT,
            _E.EVICTION_STARTED: _S.EVICTING,
            _E.REMOVED: _S.ABSENT,
            _E.ENDED: _S.GONE,
        },
        {_E.EXPECTED, _E.ABANDONED, _E.STORED, *_UNMOVED_BY_ENDS},
    ),
    _S.LEASED: (
        {_E.RELEASED: _S.READY, _E.COPY_STARTED: _S.COPYING_OUT, _E.REMOVED: _S.ABSENT, _E.ENDED: _S.GONE},
        {_E.EXPECTED, _E.ABANDONED, _E.STORED, _E.LEASED, _E.COPY_ENDED, _E.EVICTION_CANCELLED},
    ),
    _S.COPYING_OUT: (
        {_E.COPY_ENDED: _S.READY, _E.REMOVED: _S.ABSENT, _E.ENDED: _S.GONE},
        {_E.EXPECTED, _E.ABANDONED, _E.STORED, _E.LEASED, _E.COPY_STARTED, _E.RELEASED, _E.EVICTION_CANCELLED},
    ),
    _S.EVICTING: (
        {_E.EVICTION_CANCELLED: _S.READY, _E.REMOVED: _S.ABSENT, _E.ENDED: _S.GONE},
        {_E.EXPECTED, _E.ABANDONED, _E.STORED, _E.RELEASED, _E.COPY_ENDED},
    ),
    _S.GONE: (
        {},
        {_E.ABANDONED, _E.STORED, _E.REMOVED, _E.ENDED, *_UNMOVED_BY_ENDS},
    ),
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


def mermaid() -> str:
    """The table as a Mermaid state diagram. Events that change nothing are left out."""
    lines = ["stateDiagram-v2", f"    [*] --> {CopyState.ABSENT}"]
    for state, (moves, _) in _TABLE.items():
        lines += [f"    {state} --> {target}: {event}" for event, target in moves.items()]
    return "\n".join([*lines, f"    {CopyState.GONE} --> [*]", ""])
