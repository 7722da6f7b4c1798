"""One prefix becomes hot at once: a flash crowd on a system prompt that nobody had before.

Requests begin with one of many prefixes (Zipf). From some moment on, more requests come that all begin with one new
prefix. They come on top: the others are the same with or without them.

Figures. In the 1,000 first requests of Mooncake's older trace (Qin et al., FAST'25; 5.65 requests/s) 36 % begin with
the same 6,144 tokens of a tool's prompt, then come 608 more on average, and 15 % with the same 2,560 tokens, answered
by 20 (median): lengths here are like theirs, `hot_prefix_tokens` is the first of them. How hot it gets is chosen.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import at_least
from vicinal.workload.lengths import Lengths, Lognormal, draw_tokens, zipf
from vicinal.workload.prompt import Piece, Prompt, Vocabulary
from vicinal.workload.streams import own_stream, shared_stream
from vicinal.workload.times import ended, renewals_s


@dataclass(frozen=True, slots=True)
class Shape:
    """From `hot_from_s` for `hot_s` seconds come besides `hot` times as many requests, all with the hot prefix.

    `cv` is of the gaps between the usual requests; the hot ones are a Poisson process.
    """

    prefixes: int = 32
    zipf: float = 1.0
    prefix_tokens: int = 2560
    text_tokens: Lengths = Lognormal(508.0, 0.6, 4_096)
    output_tokens: Lengths = Lognormal(20.0, 0.7, 512)
    cv: float = 1.0
    hot: float = 2.0
    hot_prefix_tokens: int = 6144
    hot_from_s: float = 60.0
    hot_s: float = 120.0

    def __post_init__(self) -> None:
        at_least(1, prefixes=self.prefixes, prefix_tokens=self.prefix_tokens, hot_prefix_tokens=self.hot_prefix_tokens)
        at_least(0, zipf=self.zipf, cv=self.cv, hot=self.hot, hot_from_s=self.hot_from_s, hot_s=self.hot_s)


def hot_prefix(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float = 5.65,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """Usual and hot requests; `rate` is of the usual ones. A session is one request: `usual-N` or `hot-N`."""
    shape = shape or Shape()
    prefixes = [Piece(shared_stream(seed, which), shape.prefix_tokens) for which in range(shape.prefixes)]
    usual_s = renewals_s(np.random.default_rng([seed, 0, 0]), rate, shape.cv)
    sources = [_requests(vocabulary, seed, shape, "usual", prefixes, usual_s)]
    if shape.hot:
        end_s = shape.hot_from_s + shape.hot_s
        hot_s = renewals_s(np.random.default_rng([seed, 0, 1]), rate * shape.hot, from_s=shape.hot_from_s)
        hot = Piece(shared_stream(seed, shape.prefixes), shape.hot_prefix_tokens)
        sources.append(_requests(vocabulary, seed, shape, "hot", [hot], takewhile(lambda at_s: at_s < end_s, hot_s)))
    return ended(heapq.merge(*sources, key=lambda arrival: arrival.at_s), count=count, duration_s=duration_s)


def _requests(
    vocabulary: Vocabulary, seed: int, shape: Shape, kind: str, prefixes: list[Piece], times_s: Iterator[float]
) -> Iterator[Arrival]:
    which = 0 if kind == "usual" else 1
    stream, draw_prefix = np.random.default_rng([seed, 1, which]), zipf(len(prefixes), shape.zipf)
    for number, at_s in enumerate(times_s):
        text = Piece(own_stream(seed, 2 * number + which), draw_tokens(shape.text_tokens, stream))
        prompt = Prompt((prefixes[draw_prefix(stream)], text), vocabulary)
        yield Arrival(at_s, prompt, draw_tokens(shape.output_tokens, stream), f"{kind}-{number}")
