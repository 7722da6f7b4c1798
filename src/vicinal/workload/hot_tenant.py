"""Many tenants of unequal size, of which one floods the cluster for a while.

Each tenant has a system prompt of its own, a rate by Zipf's law and bursts of its own. The flood comes on top: every
other request is the same, at the same time, with or without it, so what it does to the others can be measured.

Figures. 27 clients as in VTC's trace of the LMSYS arena (Sheng et al., OSDI'24), whose two largest send 37 % of the
requests (here 38 %) and ten largest 80 % (75 %). ServeGen (arXiv 2505.09999; sample of its m-large at 10 requests/s):
prompts of 1,341 tokens on average, answers of 156 (median 45, p95 587), and gaps of the largest clients with a
coefficient of variation from 0.9 to 4.7; 2.5 is its largest one's. The size and the time of the flood are chosen.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError, at_least
from vicinal.workload.lengths import Lengths, Lognormal, draw_tokens, zipf_shares
from vicinal.workload.prompt import Piece, Prompt, Vocabulary
from vicinal.workload.streams import own_stream, shared_stream
from vicinal.workload.times import ended, renewals_s


@dataclass(frozen=True, slots=True)
class Shape:
    """The tenants are `tenant-0` (the largest), `tenant-1`, and so on; `zipf` 0 makes them equal.

    From `flood_from_s` for `flood_s` seconds, `tenant-<flooder>` sends besides its own `flood` times as many requests
    as all tenants together usually do, as a Poisson process. `flood` 0 is no flood. `cv` is of each tenant's gaps.
    """

    tenants: int = 27
    zipf: float = 1.0
    cv: float = 2.5
    system_tokens: int = 512
    text_tokens: Lengths = Lognormal(500.0, 1.0, 16_384)
    output_tokens: Lengths = Lognormal(45.0, 1.58, 16_384)
    flooder: int = 3
    flood: float = 2.0
    flood_from_s: float = 60.0
    flood_s: float = 60.0

    def __post_init__(self) -> None:
        at_least(1, tenants=self.tenants, system_tokens=self.system_tokens)
        at_least(0, zipf=self.zipf, cv=self.cv, flooder=self.flooder)
        at_least(0, flood=self.flood, flood_from_s=self.flood_from_s, flood_s=self.flood_s)
        if self.flooder >= self.tenants:
            raise ParameterError(f"flooder must be one of the {self.tenants} tenants, not {self.flooder}")


def hot_tenant(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float = 10.0,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """Requests of all tenants; `rate` is without the flood. A session is one request: `flood-N` or `request-N`."""
    shape = shape or Shape()
    shares = zipf_shares(shape.tenants, shape.zipf)
    sources = [
        _requests(vocabulary, seed, shape, source, tenant, times_s)
        for source, (tenant, times_s) in enumerate(_times_s(seed, rate, shape, [float(s) for s in shares]))
    ]
    return ended(heapq.merge(*sources, key=lambda arrival: arrival.at_s), count=count, duration_s=duration_s)


def _times_s(seed: int, rate: float, shape: Shape, shares: Iterable[float]) -> Iterator[tuple[int, Iterator[float]]]:
    """Who sends when: every tenant, and last the flood."""
    for tenant, part in enumerate(shares):
        yield tenant, renewals_s(np.random.default_rng([seed, 0, tenant]), rate * part, shape.cv)
    if shape.flood:
        stream, end_s = np.random.default_rng([seed, 0, shape.tenants]), shape.flood_from_s + shape.flood_s
        flood_s = renewals_s(stream, rate * shape.flood, from_s=shape.flood_from_s)
        yield shape.flooder, takewhile(lambda at_s: at_s < end_s, flood_s)


def _requests(
    vocabulary: Vocabulary, seed: int, shape: Shape, source: int, tenant: int, times_s: Iterator[float]
) -> Iterator[Arrival]:
    stream = np.random.default_rng([seed, 1, source])
    system = Piece(shared_stream(seed, tenant), shape.system_tokens)
    kind = "flood" if source == shape.tenants else "request"
    for which, at_s in enumerate(times_s):
        number = which * (shape.tenants + 1) + source
        text = Piece(own_stream(seed, number), draw_tokens(shape.text_tokens, stream))
        output_tokens = draw_tokens(shape.output_tokens, stream)
        yield Arrival(at_s, Prompt((system, text), vocabulary), output_tokens, f"{kind}-{number}", f"tenant-{tenant}")
