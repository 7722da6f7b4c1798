"""A closed loop on one server: so many clients, each of which sends its next request when it has its answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from statistics import fmean
from typing import NamedTuple

from vicinal.enginemodel.content import Named
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.spec import EngineSpec
from vicinal.enginemodel.work import Finished, PullWanted, Work


@dataclass(frozen=True, slots=True)
class Load:
    """`clients` begin at once; no more than `requests` are sent. Lengths are spread evenly between `shortest` times the
    nominal ones and the nominal ones."""

    clients: int
    requests: int
    input_tokens: int
    output_tokens: int
    shortest: float


class Means(NamedTuple):
    """Seconds to the first token, over all requests and over each client's first; seconds per further token."""

    ttft_s: float
    first_ttft_s: float
    tpot_s: float


_STRIDES = (0.7548776662466927, 0.5698402909980532)
"""Multiples of these, modulo 1, fill the square evenly (Roberts 2018)."""


def aggregated(spec: EngineSpec, load: Load) -> Means:
    """One engine that does both phases."""
    engine = Engine(spec)
    contents = _contents(load, spec.block_tokens)
    for name, content in _next(contents, load.clients):
        engine.submit(Work(name, content), 0.0)
    done: list[Finished] = []
    while (at_s := engine.next_milestone_s()) is not None:
        for output in engine.advance(at_s):
            if isinstance(output, Finished):
                done.append(output)
                for name, content in _next(contents, 1):
                    engine.submit(Work(name, content), at_s)
    return _means(load, done, {f.id: f.arrived_s for f in done})


def disaggregated(prefill: EngineSpec, decode: EngineSpec, transfer_s_per_token: float, load: Load) -> Means:
    """One engine for each phase. The answer's first token is the decode engine's."""
    prefiller, decoder = Engine(prefill), Engine(decode)
    contents = _contents(load, decode.block_tokens)
    asked: dict[str, tuple[float, Named]] = {}
    arriving: list[tuple[float, str]] = []

    def ask(requests: int, at_s: float) -> None:
        for name, content in _next(contents, requests):
            asked[name] = at_s, content
            prefiller.submit(Work(name, replace(content, output_tokens=1), hold=True), at_s)

    ask(load.clients, 0.0)
    done: list[Finished] = []
    while True:
        moments = (prefiller.next_milestone_s(), decoder.next_milestone_s(), arriving[0][0] if arriving else None)
        at_s = min((moment for moment in moments if moment is not None), default=inf)
        if at_s == inf:
            break
        while arriving and arriving[0][0] <= at_s:
            name = heappop(arriving)[1]
            prefiller.release(name, at_s)
            decoder.pulled(name, at_s)
        for output in prefiller.advance(at_s):
            if isinstance(output, Finished):
                prefiller.claim(output.id, at_s)
                decoder.submit(Work(output.id, asked[output.id][1], pulls=True), at_s)
        for output in decoder.advance(at_s):
            if isinstance(output, PullWanted):
                heappush(arriving, (at_s + output.tokens * transfer_s_per_token, output.id))
            elif isinstance(output, Finished):
                done.append(output)
                ask(1, at_s)
    return _means(load, done, {name: at_s for name, (at_s, _) in asked.items()})


def _contents(load: Load, block_tokens: int) -> Iterator[tuple[str, Named]]:
    """Requests that share nothing."""
    fresh = count()
    for i in range(load.requests):
        prompt, output = (
            max(1, round(tokens * (load.shortest + (1 - load.shortest) * (i * stride % 1.0))))
            for tokens, stride in zip((load.input_tokens, load.output_tokens), _STRIDES, strict=True)
        )
        keys = [next(fresh) for _ in range((prompt + output) // block_tokens)]
        yield f"r{i}", Named(keys, prompt, output)


def _next(contents: Iterator[tuple[str, Named]], requests: int) -> list[tuple[str, Named]]:
    return [named for _, named in zip(range(requests), contents, strict=False)]


def _means(load: Load, done: Sequence[Finished], asked_s: Mapping[str, float]) -> Means:
    ttft_s = {f.id: f.first_token_s - asked_s[f.id] for f in done}
    return Means(
        fmean(ttft_s.values()),
        fmean(ttft_s[f"r{i}"] for i in range(load.clients)),
        fmean((f.finished_s - f.first_token_s) / (f.output_tokens - 1) for f in done if f.output_tokens > 1),
    )
