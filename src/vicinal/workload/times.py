"""When requests come: renewal processes, and where a workload ends."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import at_least, positive


def renewals_s(stream: np.random.Generator, rate: float, cv: float = 1.0, from_s: float = 0.0) -> Iterator[float]:
    """Instants after `from_s`, `rate` a second, without end.

    Gaps are Gamma distributed with the coefficient of variation `cv`: 1 is a Poisson process, 0 is evenly spaced, more
    than 1 is bursty (ServeGen, arXiv 2505.09999, fits Gamma gaps to production clients). Another rate gives the same
    gaps in another scale.
    """
    positive(rate=rate)
    at_least(0, cv=cv)
    return _renewals_s(stream, rate, cv, from_s)


def _renewals_s(stream: np.random.Generator, rate: float, cv: float, from_s: float) -> Iterator[float]:
    shape = 1 / cv**2 if cv else math.inf
    gaps = 0.0
    while True:
        gaps += stream.standard_gamma(shape) / shape if cv else 1.0
        yield from_s + gaps / rate


def ended(arrivals: Iterable[Arrival], *, count: int | None, duration_s: float | None) -> Iterator[Arrival]:
    """The first `count` requests, or those before `duration_s`; whichever ends first.

    `arrivals` ascend in time. Turns that wait for an answer are counted with the arrival that they belong to: the last
    session is cut where `count` ends, and one that has begun before `duration_s` is whole. Raises ValueError when
    neither end is given, or a negative one.
    """
    if count is None and duration_s is None:
        raise ValueError("say how long the workload is: count or duration_s")
    at_least(0, count=count or 0, duration_s=duration_s or 0)
    return _ended(arrivals, count, math.inf if duration_s is None else duration_s)


def _ended(arrivals: Iterable[Arrival], count: int | None, end_s: float) -> Iterator[Arrival]:
    room = math.inf if count is None else count
    if room <= 0:
        return
    for arrival in arrivals:
        if arrival.at_s >= end_s:
            return
        requests = 1 + len(arrival.later)
        if requests >= room:
            yield replace(arrival, later=arrival.later[: int(room) - 1]) if requests > room else arrival
            return
        room -= requests
        yield arrival
