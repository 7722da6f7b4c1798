"""What queueing theory says, with a mean service of one second, and recursions that give each request's time exactly.

`T` is the mean time in the system. Figures without a formula name their source.
"""

import heapq
from itertools import pairwise
from math import factorial

import numpy as np
from numpy.typing import NDArray

from tests.theory.queues import Floats, Sample

SQUARE_MEAN = {"exponential": 2.0, "fixed": 1.0, "mixed": 5.0}
"""E[S^2] of the services of `queues.poisson`."""


def one_server(load: float, square_mean: float) -> float:
    """T of M/G/1: Pollaczek and Khinchine's formula."""
    return 1 + load * square_mean / (2 * (1 - load))


def erlang_b(servers: int, offered: float) -> float:
    """Share of requests that find no idle server, when those are turned away."""
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked


def erlang_c(servers: int, load: float) -> float:
    """T of M/M/c."""
    offered = servers * load
    last = offered**servers / factorial(servers) / (1 - load)
    waiting = last / (sum(offered**k / factorial(k) for k in range(servers)) + last)
    return 1 + waiting / (servers * (1 - load))


def one_server_blocking(room: int, load: float) -> float:
    """Share that M/M/1/K turns away, with room for K requests, the one in service included."""
    return (1 - load) * load**room / (1 - load ** (room + 1))


def first_come_first_served(sample: Sample, servers: int) -> Floats:
    """Each request's time in the system (Kiefer and Wolfowitz; Lindley's recursion for one server)."""
    if servers == 1:
        slack_s = np.cumsum(sample.service_s) - sample.service_s - sample.at_s
        return sample.service_s + slack_s - np.minimum.accumulate(slack_s)
    free_s = [0.0] * servers
    in_system_s = []
    for at_s, service_s in zip(sample.at_s.tolist(), sample.service_s.tolist(), strict=True):
        end_s = max(free_s[0], at_s) + service_s
        heapq.heapreplace(free_s, end_s)
        in_system_s.append(end_s - at_s)
    return np.array(in_system_s)


def accepted(sample: Sample, servers: int, room: int) -> NDArray[np.bool_]:
    """Who finds fewer than `room` requests in the system; the others are turned away and leave no trace."""
    free_s = [0.0] * servers
    ends_s: list[float] = []
    taken = []
    for at_s, service_s in zip(sample.at_s.tolist(), sample.service_s.tolist(), strict=True):
        while ends_s and ends_s[0] <= at_s:
            heapq.heappop(ends_s)
        taken.append(len(ends_s) < room)
        if taken[-1]:
            end_s = max(free_s[0], at_s) + service_s
            heapq.heapreplace(free_s, end_s)
            heapq.heappush(ends_s, end_s)
    return np.array(taken)


def shared_link_ends(begins_s: list[float], sizes_bytes: list[float], bytes_per_s: float) -> list[float]:
    """When transfers over one link end, if those under way share it equally: processor sharing, by virtual time."""
    ends_s = [0.0] * len(begins_s)
    left = dict[int, float]()
    news = sorted({*begins_s})
    for now, following in pairwise([*news, float("inf")]):
        left |= {k: sizes_bytes[k] for k, at_s in enumerate(begins_s) if at_s == now}
        while left:
            first = min(left, key=lambda k: left[k])
            step_s = left[first] * len(left) / bytes_per_s
            if now + step_s > following:
                moved = (following - now) * bytes_per_s / len(left)
                left = {k: size - moved for k, size in left.items()}
                break
            now += step_s
            moved = left.pop(first)
            left = {k: size - moved for k, size in left.items()}
            ends_s[first] = now
    return ends_s
