"""Servers with a queue each, and a rule that says which one to join.

References: joining the shortest of all queues or of `d` that are drawn (the supermarket model), with 100, 16 or 2
servers, computed from the Markov chain (two servers) or simulated elsewhere, to half a percent. When what is known of
the queues is a board that is brought up to date every so many service times, the shortest queue is worth less the older
it is (Mitzenmacher, How useful is old information?, IEEE TPDS 11(1), 2000).

The control is a model of a few lines (board.py) that makes the same choices of the same requests.
"""

from functools import partial

import numpy as np

from tests.theory.board import at_present, on_a_board
from tests.theory.estimate import Control, estimate, inputs
from tests.theory.queues import Floats, Sample, System, poisson, run
from tests.theory.rows import Case, Row, row
from tests.theory.theory import erlang_c, first_come_first_served

REQUESTS, LONG, LONG_ON_BOARD = 2_500, 500_000, 1_500_000
SIMULATED_ERROR = 0.005
"""One standard error of a reference that was simulated, as a share of it."""


def time_in_system(servers: int, choices: int, load: float, age_s: float, theory: float) -> Row:
    """T when what is known of the queues is up to `age_s` seconds old; 0 for always the present."""
    long = LONG_ON_BOARD if age_s else LONG
    sample, longer = (
        poisson(count, load * servers, "exponential", seed) for count, seed in ((REQUESTS, 21), (long, 22))
    )
    by = "reported_requests" if age_s else "requests"
    rule = f"least_loaded:by={by}" if choices == servers else f"power_of_two:by={by}+candidates={choices}"
    system = System(servers, policy=rule, heartbeat_s=age_s or 50.0, report_spread=0.0, seed=23)
    known = inputs(longer, load * servers)
    if servers == 2:
        known.append(Control(first_come_first_served(longer, 2), erlang_c(2, load)))
    return row(
        theory,
        run(sample, system).in_system_s,
        modelled(sample, servers, choices, age_s, system.dice()),
        estimate(modelled(longer, servers, choices, age_s, np.random.default_rng(24)), known),
        0.0 if servers == 2 else SIMULATED_ERROR * theory,
    )


def modelled(sample: Sample, servers: int, choices: int, age_s: float, dice: np.random.Generator) -> Floats:
    if age_s:
        return on_a_board(sample, servers, choices, age_s, dice)
    return at_present(sample, servers, choices, dice)


def _name(servers: int, choices: int, load: float, age_s: float) -> str:
    which = "the shortest" if choices == servers else f"the shortest of {choices} drawn"
    return f"{which} of {servers} queues, load {load}" + (f", known every {age_s:g} s" if age_s else "") + ": T"


CASES = [
    Case(_name(servers, choices, load, age_s), sharp, partial(time_in_system, servers, choices, load, age_s, theory))
    for servers, choices, load, age_s, theory, sharp in (
        (2, 2, 0.5, 0.0, 1.4263, 0.01),
        (2, 2, 0.7, 0.0, 2.1082, 0.01),
        (2, 2, 0.9, 0.0, 5.4749, 0.02),
        (100, 2, 0.5, 0.0, 1.2669, 0.01),
        (100, 2, 0.7, 0.0, 1.6203, 0.01),
        (100, 2, 0.9, 0.0, 2.6414, 0.02),
        (100, 3, 0.9, 0.0, 2.0639, 0.02),
        (100, 2, 0.9, 1.0, 2.97, 0.02),
        (100, 2, 0.9, 5.0, 4.02, 0.02),
        (100, 100, 0.9, 1.0, 3.99, 0.03),
        (100, 100, 0.9, 5.0, 12.1, 0.05),
        (16, 2, 0.8, 5.0, 3.12, 0.01),
        (16, 16, 0.8, 1.0, 2.87, 0.02),
        (16, 16, 0.8, 5.0, 7.21, 0.04),
    )
]
