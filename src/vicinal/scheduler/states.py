"""The life of a request, as a table.

A request is received, perhaps held until something frees room, planned, and sent off. Its prefill ends either in a
hand-off (its KV then travels: transferring) or, on one endpoint, straight in tokens. A leg that dies before the first
byte puts it back to received, for another plan; after the first byte it can only fail, because its client has seen
half an answer. Five states end it, and nothing leaves those.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    RECEIVED = "received"
    HELD = "held"
    PLANNED = "planned"
    PREFILLING = "prefilling"
    TRANSFERRING = "transferring"
    DECODING = "decoding"
    DONE = "done"
    SHED = "shed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ORPHANED = "orphaned"

    @property
    def final(self) -> bool:
        return not TRANSITIONS[self]


class Move(StrEnum):
    """What happens to a request, seen from its state."""

    HOLD = "hold"
    PLAN = "plan"
    DISPATCH = "dispatch"
    HAND_OFF = "hand_off"
    FIRST_TOKEN = "first_token"
    FINISH = "finish"
    REPLAN = "replan"
    SHED = "shed"
    FAIL = "fail"
    CANCEL = "cancel"
    ORPHAN = "orphan"


_GONE = {Move.CANCEL: State.CANCELLED, Move.ORPHAN: State.ORPHANED}
_UNDER_WAY = {**_GONE, Move.FINISH: State.DONE, Move.FAIL: State.FAILED}

TRANSITIONS: Mapping[State, Mapping[Move, State]] = MappingProxyType(
    {
        State.RECEIVED: {**_GONE, Move.HOLD: State.HELD, Move.PLAN: State.PLANNED, Move.SHED: State.SHED},
        State.HELD: {**_GONE, Move.PLAN: State.PLANNED, Move.SHED: State.SHED},
        State.PLANNED: {**_GONE, Move.DISPATCH: State.PREFILLING},
        State.PREFILLING: {
            **_UNDER_WAY,
            Move.HAND_OFF: State.TRANSFERRING,
            Move.FIRST_TOKEN: State.DECODING,
            Move.REPLAN: State.RECEIVED,
        },
        State.TRANSFERRING: {**_UNDER_WAY, Move.FIRST_TOKEN: State.DECODING, Move.REPLAN: State.RECEIVED},
        State.DECODING: _UNDER_WAY,
        State.DONE: {},
        State.SHED: {},
        State.FAILED: {},
        State.CANCELLED: {},
        State.ORPHANED: {},
    }
)


class IllegalMoveError(ValueError):
    """A move that the table does not allow: a bug in whoever asked for it."""


def after(state: State, move: Move) -> State:
    """The state that `move` leads to from `state`."""
    try:
        return TRANSITIONS[state][move]
    except KeyError:
        raise IllegalMoveError(f"a request that is {state} cannot {move}") from None


def diagram() -> str:
    """The table as a mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.RECEIVED}"]
    for state, moves in TRANSITIONS.items():
        lines += [f"    {state} --> {target}: {move}" for move, target in moves.items()]
        if not moves:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"
