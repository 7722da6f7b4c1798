"""Sessions become arrivals: open loop, where a slow answer delays no later turn, or closed, where turns wait for it."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vicinal.workload.arrival import Arrival, Turn


@dataclass(frozen=True, slots=True)
class Session:
    """The turns of one client, at least one; the first one's pause counts for nothing."""

    start_s: float
    name: str
    tenant: str
    turns: tuple[Turn, ...]


def closed_loop(sessions: Iterable[Session]) -> Iterator[Arrival]:
    """One arrival per session, its other turns in `later`. Ascends in time if the sessions' starts do."""
    for session in sessions:
        first, *later = session.turns
        yield _arrival(session, first, session.start_s, tuple(later))


def open_loop(sessions: Iterable[Session], answer_s_per_token: float) -> Iterator[Arrival]:
    """Every turn of every session by time, taking an answer to last `answer_s_per_token` for each of its tokens.

    `sessions` ascend in time and may have no end: a session is asked for when the time of its start has come, and only
    those under way are held. Of equal times, the earlier session's goes first.
    """
    pending: list[tuple[float, int, int, Session]] = []
    for number, session in enumerate(sessions):
        while pending and pending[0][0] <= session.start_s:
            yield _next_turn(pending, answer_s_per_token)
        heapq.heappush(pending, (session.start_s, number, 0, session))
    while pending:
        yield _next_turn(pending, answer_s_per_token)


def _next_turn(pending: list[tuple[float, int, int, Session]], answer_s_per_token: float) -> Arrival:
    at_s, number, which, session = pending[0]
    turn = session.turns[which]
    if which + 1 < len(session.turns):
        wait_s = turn.output_tokens * answer_s_per_token + session.turns[which + 1].pause_s
        heapq.heapreplace(pending, (at_s + wait_s, number, which + 1, session))
    else:
        heapq.heappop(pending)
    return _arrival(session, turn, at_s, ())


def _arrival(session: Session, turn: Turn, at_s: float, later: tuple[Turn, ...]) -> Arrival:
    return Arrival(at_s, turn.prompt, turn.output_tokens, session.name, session.tenant, answer=turn.answer, later=later)
