"""Queues of which a recursion tells every request's time: that is the control."""

from functools import partial

import numpy as np

from tests.theory.estimate import estimate, inputs
from tests.theory.queues import ANY, System, poisson, run
from tests.theory.rows import Case, Row, row
from tests.theory.theory import (
    SQUARE_MEAN,
    accepted,
    erlang_b,
    erlang_c,
    first_come_first_served,
    one_server,
    one_server_blocking,
)

REQUESTS = 2_500


def time_in_system(service: str, servers: int, load: float, theory: float, long: int) -> Row:
    """T of one central queue. One server queues at the engine, several at the scheduler."""
    sample, longer = (poisson(count, load * servers, service, seed) for count, seed in ((REQUESTS, 1), (long, 2)))
    system = System(servers=servers, told_sequences=ANY if servers == 1 else 1)
    return row(
        theory,
        run(sample, system).in_system_s,
        first_come_first_served(sample, servers),
        estimate(first_come_first_served(longer, servers), inputs(longer, load * servers)),
    )


def turned_away(servers: int, room: int, load: float, theory: float) -> Row:
    """The share that finds `room` requests there, if the scheduler holds as many as have no server."""
    sample, longer = (
        poisson(count, load * servers, "exponential", seed) for count, seed in ((REQUESTS, 3), (500_000, 4))
    )
    system = System(servers=servers, told_sequences=1, held_max=room - servers)
    served = np.isin(sample.at_s, run(sample, system).at_s)
    return row(
        theory,
        1.0 - served,
        1.0 - accepted(sample, servers, room),
        estimate(1.0 - accepted(longer, servers, room), inputs(longer, load * servers)),
    )


NAMES = {"exponential": "M/M/1", "fixed": "M/D/1", "mixed": "M/G/1, services with a squared variation of 4"}
CASES = [
    *(
        Case(
            f"{NAMES[service]}, load {load}: T",
            sharp,
            partial(time_in_system, service, 1, load, one_server(load, SQUARE_MEAN[service]), long),
        )
        for service, sharps in (
            ("exponential", (0.01, 0.02, 0.03)),
            ("fixed", (0.01, 0.01, 0.02)),
            ("mixed", (0.02, 0.04, 0.06)),
        )
        for load, sharp, long in zip((0.5, 0.8, 0.9), sharps, (2_000_000, 6_000_000, 6_000_000), strict=True)
    ),
    *(
        Case(
            f"M/M/{servers}, load {load}: T",
            sharp,
            partial(time_in_system, "exponential", servers, load, erlang_c(servers, load), 500_000),
        )
        for servers in (2, 4, 8)
        for load, sharp in ((0.5, 0.02), (0.8, 0.05))
    ),
    Case(
        "M/M/1/5, load 0.9: share turned away",
        0.03,
        partial(turned_away, 1, 5, 0.9, one_server_blocking(5, 0.9)),
    ),
    Case("M/M/4/4, load 0.8: share turned away", 0.02, partial(turned_away, 4, 4, 0.8, erlang_b(4, 3.2))),
]
