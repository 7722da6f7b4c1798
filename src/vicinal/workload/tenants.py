"""Tenants of different habits beside each other, each described by itself: for what one of them does to the others.

A parameter is a list with an entry per source of requests, in the order of `names`, or one entry for all. A name may
come several times: then that tenant has several sources, such as its usual requests and, for a while, a flood of long
ones. Sources share no chance: what one sends is the same, at the same time, whoever is beside it. Sources of one name
share their prefixes.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError, at_least, positive
from vicinal.workload.lengths import Lognormal, draw_tokens
from vicinal.workload.prompt import Piece, Prompt, Vocabulary
from vicinal.workload.streams import own_stream, shared_stream
from vicinal.workload.times import ended, renewals_s

SOURCES_MAX = 64
PREFIXES_MAX = 1024
_REQUESTS_MAX = 1 << 26
"""Of one source: so its texts are its own, whoever else there is."""

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Shape:
    """Per source: `services` is the class of service, `rates` are requests per second, `cv` is of its gaps.

    A prompt is one of `prefixes` texts of `prefix_tokens`, evenly drawn (0: none), and a text of its own, whose length
    is lognormal, as that of the answer is. What is longer than `tokens_most` is cut off. A source sends from `from_s`
    on for `for_s` seconds; 0 is without end.
    """

    names: tuple[str, ...] = ("a", "b")
    services: tuple[str, ...] = ("interactive",)
    rates: tuple[float, ...] = (2.0,)
    cv: tuple[float, ...] = (1.0,)
    text_tokens: tuple[int, ...] = (2048,)
    text_sigma: tuple[float, ...] = (0.5,)
    output_tokens: tuple[int, ...] = (128,)
    output_sigma: tuple[float, ...] = (0.5,)
    prefixes: tuple[int, ...] = (0,)
    prefix_tokens: tuple[int, ...] = (1024,)
    from_s: tuple[float, ...] = (0.0,)
    for_s: tuple[float, ...] = (0.0,)
    tokens_most: int = 120_000

    def __post_init__(self) -> None:
        if not 1 <= len(self.names) <= SOURCES_MAX:
            raise ParameterError(f"names must be 1 to {SOURCES_MAX}, not {len(self.names)}")
        for name in self.__dataclass_fields__:
            values = getattr(self, name)
            if isinstance(values, tuple) and len(values) not in (1, len(self.names)):
                raise ParameterError(f"{name} must have one entry, or {len(self.names)} like names, not {len(values)}")
        positive(rates=min(self.rates))
        at_least(0, cv=min(self.cv), from_s=min(self.from_s), for_s=min(self.for_s))
        at_least(0, text_sigma=min(self.text_sigma), output_sigma=min(self.output_sigma), prefixes=min(self.prefixes))
        at_least(1, text_tokens=min(self.text_tokens), output_tokens=min(self.output_tokens))
        at_least(1, prefix_tokens=min(self.prefix_tokens), tokens_most=self.tokens_most)
        if max(self.prefixes) > PREFIXES_MAX:
            raise ParameterError(f"prefixes must be at most {PREFIXES_MAX}, not {max(self.prefixes)}")

    @property
    def sources(self) -> "list[Source]":
        """One by one."""
        return [
            Source(
                tenant=name,
                service=_entry(self.services, at),
                rate=_entry(self.rates, at),
                cv=_entry(self.cv, at),
                text=Lognormal(_entry(self.text_tokens, at), _entry(self.text_sigma, at), self.tokens_most),
                output=Lognormal(_entry(self.output_tokens, at), _entry(self.output_sigma, at), self.tokens_most),
                prefixes=_entry(self.prefixes, at),
                prefix_tokens=_entry(self.prefix_tokens, at),
                prefix_from=self.names.index(name) * PREFIXES_MAX,
                from_s=_entry(self.from_s, at),
                until_s=_entry(self.from_s, at) + (_entry(self.for_s, at) or np.inf),
            )
            for at, name in enumerate(self.names)
        ]


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of every list. The tenant's shared texts are numbered from `prefix_from`."""

    tenant: str
    service: str
    rate: float
    cv: float
    text: Lognormal
    output: Lognormal
    prefixes: int
    prefix_tokens: int
    prefix_from: int
    from_s: float
    until_s: float


def tenants(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float | None = None,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """Requests of all sources; `rate` is that of all together while all send. A session is one request."""
    sources = (shape or Shape()).sources
    if rate is not None:
        positive(rate=rate)
    faster = 1.0 if rate is None else rate / sum(source.rate for source in sources)
    each = [_requests(vocabulary, seed, number, source, faster) for number, source in enumerate(sources)]
    return ended(heapq.merge(*each, key=lambda arrival: arrival.at_s), count=count, duration_s=duration_s)


def _requests(vocabulary: Vocabulary, seed: int, number: int, source: Source, faster: float) -> Iterator[Arrival]:
    stream = np.random.default_rng([seed, 1, number])
    times_s = renewals_s(np.random.default_rng([seed, 0, number]), source.rate * faster, source.cv, source.from_s)
    for which, at_s in enumerate(takewhile(lambda at_s: at_s < source.until_s, times_s)):
        if which == _REQUESTS_MAX:
            raise ParameterError(f"a source of tenants has at most {_REQUESTS_MAX:,} requests")
        session = number * _REQUESTS_MAX + which
        pieces = [Piece(own_stream(seed, session), draw_tokens(source.text, stream))]
        if source.prefixes:
            chosen = source.prefix_from + int(stream.integers(source.prefixes))
            pieces.insert(0, Piece(shared_stream(seed, chosen), source.prefix_tokens))
        output_tokens = draw_tokens(source.output, stream)
        prompt = Prompt(tuple(pieces), vocabulary)
        name = f"{source.tenant}-{number}-{which}"
        yield Arrival(at_s, prompt, output_tokens, name, source.tenant, service=source.service)


def _entry(values: Sequence[Entry], at: int) -> Entry:
    return values[at if len(values) > 1 else 0]
