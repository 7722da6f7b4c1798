"""How long a decision takes, and what goes with it, in microseconds on one core of this machine.

To *decide* is view, filters, index match, table, the cheapest rows and the policy. *Describing* adds what the record
says: the losers, the named alternatives, the inputs and their age. *All of RequestArrived* adds the reservation too.
Beside them is what the data path does for each request: parsing, hashing, recording. The load is a fleet in its steady
state (cli/bench_load.py).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import quantiles

import msgspec
import numpy as np

from vicinal.cli.bench_load import BLOCK_TOKENS, MODEL, PROMPT_TOKENS, FleetAtWork
from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.decision import Decision
from vicinal.domain.effects import Record
from vicinal.domain.ids import RequestId
from vicinal.gateway.caller import ANYBODY
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.parse import RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.kvindex.hashing import chain
from vicinal.kvindex.index import BlockIndex
from vicinal.observe.encode import encode_decision
from vicinal.scheduler.tracked import Tracked

AIM_US = {16: 200.0, 1024: 800.0}
"""Of a decision's median, by endpoints."""

RECORD_AIM_US = 50.0


@dataclass(frozen=True, slots=True)
class BenchFigure:
    """`peer` is what another program does in the same case, `ratio` how many times slower than ours that is; `aim` is
    what the project promises, `holds` whether it is kept. None where there is none."""

    name: str
    value: float
    unit: str = "us"
    peer: float | None = None
    ratio: float | None = None
    aim: float | None = None
    holds: bool | None = None


def figures(sizes: Sequence[int] = (16, 128, 1024), decisions: int = 1000) -> list[BenchFigure]:
    """All figures. `decisions` are timed per size, after as many as it takes until the load is steady."""
    found: list[BenchFigure] = []
    recorded: list[Decision] = []
    for size in sizes:
        found += _of_fleet(size, decisions, recorded)
    found += _timed("hash 10,000 tokens", _hashing(), 300)
    found += _timed("parse 10,000 token ids, hashing included", _parsing(), 100)
    lines = iter(recorded)
    found += _timed("record a decision", lambda: encode_decision(next(lines)), len(recorded), RECORD_AIM_US)
    return found


def _of_fleet(size: int, decisions: int, recorded: list[Decision]) -> list[BenchFigure]:
    fleet = FleetAtWork(size)
    scheduler, state = fleet.scheduler, fleet.scheduler.state
    cycle = scheduler.cycle
    choices, matches, plans, whole = [], [], [], []
    for number, arrival in enumerate(fleet.arrivals()):
        timed = number >= fleet.settled_after
        if timed:
            request = arrival.request
            choices.append(_us(partial(cycle.choose, Tracked(request, fleet.now), fleet.now)))
            matches.append(_us(partial(_match, state.index, request.block_hashes, size)))
            plans.append(_us(partial(cycle.plan, Tracked(request, fleet.now), 0, fleet.now)))
        started_ns = time.perf_counter_ns()
        effects = scheduler.handle(arrival, fleet.now)
        if timed:
            whole.append((time.perf_counter_ns() - started_ns) / 1e3)
            recorded += (effect.decision for effect in effects if isinstance(effect, Record))
        fleet.arrive(list(effects))
        if len(whole) == decisions:
            break
    return [
        *_figures(f"decide, {size:,} endpoints", choices, AIM_US.get(size)),
        *_figures(f"of it the index match, {size:,} endpoints", matches),
        *_figures(f"decide and describe, {size:,} endpoints", plans),
        *_figures(f"all of RequestArrived, {size:,} endpoints", whole),
    ]


def _match(index: BlockIndex, hashes: bytes, size: int) -> object:
    return index.match(hashes, size).expected


def _hashing() -> Callable[[], object]:
    prompt = np.random.default_rng(0).integers(0, 2**17, PROMPT_TOKENS, dtype=np.uint32).tobytes()
    return lambda: chain(prompt, BLOCK_TOKENS)


def _parsing() -> Callable[[], object]:
    ids = np.random.default_rng(0).integers(0, 2**17, PROMPT_TOKENS).tolist()
    body = msgspec.json.encode({"model": MODEL, "prompt": ids, "max_tokens": 100, "stream": True})
    parser = RequestParser([ServedModel(MODEL, BLOCK_TOKENS, 131_072)], OutputLengths(), GatewayCounters())
    return lambda: parser.completion(RequestId("bench"), body, ANYBODY)


def _timed(name: str, run: Callable[[], object], times: int, aim: float | None = None) -> list[BenchFigure]:
    return _figures(name, [_us(run) for _ in range(times)], aim)


def _us(run: Callable[[], object]) -> float:
    started_ns = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - started_ns) / 1e3


def _figures(name: str, times_us: Sequence[float], aim: float | None = None) -> list[BenchFigure]:
    """Median and 99th percentile; the aim is the median's."""
    cuts = quantiles(times_us, n=100, method="inclusive")
    p50, p99 = cuts[49], cuts[98]
    return [
        BenchFigure(f"{name}, p50", p50, aim=aim, holds=None if aim is None else p50 < aim),
        BenchFigure(f"{name}, p99", p99),
    ]
