"""Requests that have nothing to do with each other: for theory, and to look for a cluster's capacity.

Gaps and lengths are independent draws from given distributions, and no two prompts share a text. Poisson arrivals with
exponential or fixed lengths are the M/M and M/D of queueing theory, where an engine's time is proportional to tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import at_least
from vicinal.workload.lengths import Fixed, Lengths, draw_tokens
from vicinal.workload.prompt import Piece, Prompt, Vocabulary
from vicinal.workload.streams import own_stream
from vicinal.workload.times import ended, renewals_s


@dataclass(frozen=True, slots=True)
class Shape:
    """`cv` is the coefficient of variation of the Gamma distributed gaps: 1 is Poisson, 0 evenly spaced."""

    prompt_tokens: Lengths = Fixed(1024.0)
    output_tokens: Lengths = Fixed(128.0)
    cv: float = 1.0

    def __post_init__(self) -> None:
        at_least(0, cv=self.cv)


def independent(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float = 1.0,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """`rate` requests a second; no sessions, tenants or models."""
    shape = shape or Shape()
    times_s = renewals_s(np.random.default_rng([seed, 0]), rate, shape.cv)
    return ended(_arrivals(vocabulary, seed, shape, times_s), count=count, duration_s=duration_s)


def _arrivals(vocabulary: Vocabulary, seed: int, shape: Shape, times_s: Iterator[float]) -> Iterator[Arrival]:
    stream = np.random.default_rng([seed, 1])
    for number, at_s in enumerate(times_s):
        text = Piece(own_stream(seed, number), draw_tokens(shape.prompt_tokens, stream))
        yield Arrival(at_s, Prompt((text,), vocabulary), draw_tokens(shape.output_tokens, stream))
