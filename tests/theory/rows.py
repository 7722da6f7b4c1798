"""One comparison of the simulator with theory: a line of the table in docs/simulator.md."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.theory.estimate import Estimate, estimate
from tests.theory.queues import Floats


@dataclass(frozen=True, slots=True)
class Row:
    """`requests` were simulated. `theory_error` is one standard error of a reference that was simulated itself.

    `apart` is the greatest difference, over all requests, from what the control says of the same requests.
    """

    theory: float
    simulated: Estimate
    requests: int
    apart: float
    theory_error: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """`sharp` is the relative error that would be noticed: half of the interval, as a share of theory's value."""

    name: str
    sharp: float
    measure: Callable[[], Row]


def row(
    theory: float,
    simulated: Floats,
    control: Floats,
    longer: Estimate,
    theory_error: float = 0.0,
) -> Row:
    """What the simulator gives beyond its control on the same requests, added to the control's mean over many more.

    So the interval is that of many more requests, as long as the two agree request by request; where they do not, the
    difference and its error are in the result.
    """
    beyond = simulated - control
    near = estimate(beyond, warm_up=0.0)
    both = Estimate(longer.mean + near.mean, float(np.hypot(longer.error, near.error)))
    return Row(theory, both, len(beyond), float(np.abs(beyond).max()), theory_error)
