"""Servers with a queue each, and a board of their lengths that is brought up to date now and then: a model without a
scheduler or an engine, as small as it can be written, that runs for millions of requests.

Its dice are those of the policies (policies/pick.py), thrown in the same order: a number for each candidate that is
drawn, and one to tell equals apart. So with equal seeds it makes the choices that the simulator should make.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from tests.theory.queues import Floats, Sample

Ints = NDArray[np.int64]

_APART = 1e6
"""More seconds than any run lasts: keeps servers apart where they share an array."""


def on_a_board(sample: Sample, servers: int, choices: int, age_s: float, dice: np.random.Generator) -> Floats:
    """Each request's time in the system. It joins the shortest queue of `choices` servers that are drawn, or of all,
    going by the lengths at the latest multiple of `age_s`; of equals any."""
    free_s = np.zeros(servers)
    ends_s, of = np.zeros(0), np.zeros(0, dtype=np.int64)
    in_system_s = np.empty(len(sample))
    turns = np.arange(0.0, sample.at_s[-1] + age_s, age_s)
    firsts = np.searchsorted(sample.at_s, turns).tolist()
    for now, first, last in zip(turns, firsts, [*firsts[1:], len(sample)], strict=True):
        there = ends_s > now
        ends_s, of = ends_s[there], of[there]
        chosen = _choose(np.bincount(of, minlength=servers), choices, last - first, dice)
        done_s = _served(sample.at_s[first:last], sample.service_s[first:last], chosen, free_s)
        in_system_s[first:last] = done_s - sample.at_s[first:last]
        np.maximum.at(free_s, chosen, done_s)
        ends_s, of = np.append(ends_s, done_s), np.append(of, chosen)
    return in_system_s


def at_present(sample: Sample, servers: int, choices: int, dice: np.random.Generator) -> Floats:
    """Likewise when the board is always up to date."""
    free_s = [0.0] * servers
    queues: list[deque[float]] = [deque() for _ in range(servers)]
    candidates, luck = _candidates(servers, choices, len(sample), dice)
    in_system_s = []
    for at_s, service_s, among, number in zip(
        sample.at_s.tolist(), sample.service_s.tolist(), candidates.tolist(), luck.tolist(), strict=True
    ):
        lengths = []
        for server in among:
            queue = queues[server]
            while queue and queue[0] <= at_s:
                queue.popleft()
            lengths.append(len(queue))
        least = min(lengths)
        equals = [server for server, length in zip(among, lengths, strict=True) if length == least]
        chosen = equals[int(number * len(equals))]
        free_s[chosen] = max(at_s, free_s[chosen]) + service_s
        queues[chosen].append(free_s[chosen])
        in_system_s.append(free_s[chosen] - at_s)
    return np.array(in_system_s)


def _candidates(servers: int, choices: int, count: int, dice: np.random.Generator) -> tuple[Ints, Floats]:
    """(count, choices) distinct servers, ascending in each row, and a number each to tell equals apart."""
    if choices == servers:
        return np.tile(np.arange(servers), (count, 1)), dice.random(count)
    thrown = dice.random((count, choices + 1))
    drawn = np.empty((count, 0), dtype=np.int64)
    for number in range(choices):
        # The place among those that are left; each that is gone and stood before it moves it on.
        place = (thrown[:, number] * (servers - number)).astype(np.int64)
        for gone in drawn.T:
            place += place >= gone
        drawn = np.sort(np.column_stack([drawn, place]), axis=1)
    return drawn, thrown[:, choices]


def _choose(board: Ints, choices: int, count: int, dice: np.random.Generator) -> Ints:
    if choices == len(board):
        best = np.flatnonzero(board == board.min())
        return best[(dice.random(count) * len(best)).astype(np.int64)]
    candidates, luck = _candidates(len(board), choices, count, dice)
    lengths = board[candidates]
    equal = lengths == lengths.min(axis=1, keepdims=True)
    rank = (luck * equal.sum(axis=1)).astype(np.int64) + 1
    return candidates[np.arange(count), (equal.cumsum(axis=1) == rank[:, None]).argmax(axis=1)]


def _served(at_s: Floats, service_s: Floats, server: Ints, free_s: Floats) -> Floats:
    """When each is done, first come first served at each server, which has been free since `free_s`: Lindley's
    recursion for all servers at once."""
    order = np.argsort(server, kind="stable")
    group = server[order] * _APART
    work_s = np.cumsum(service_s[order])
    begin_s = np.maximum(at_s, free_s[server])[order] - (work_s - service_s[order])
    done_s = np.empty(len(at_s))
    done_s[order] = work_s + np.maximum.accumulate(begin_s + group) - group
    return done_s
