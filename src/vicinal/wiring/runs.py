"""Simulated runs as data: what they are made of in words and numbers, so that they can be sent to other processes."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec.structs import replace as with_changes

from vicinal.config.fleet import Config
from vicinal.config.load import load, over
from vicinal.config.made import made_cluster
from vicinal.sim.simulation import Progress
from vicinal.wiring.simulated import Outcome, Physics, simulate, with_policy
from vicinal.workload.arrival import Arrival
from vicinal.workload.generators import GENERATORS, generate, read_name
from vicinal.workload.prompt import Vocabulary
from vicinal.workload.trace import Spread, Trace, TraceFormat, load_trace

REQUESTS = 2_000
"""Length of a made workload that nobody gave an end."""

_VOCABULARY = Vocabulary(0, 1 << 17)
"""A simulation never makes tokens, but recipes have a vocabulary."""


class RunError(ValueError):
    """Words of a run that do not go together."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests come, and when.

    `source` is a trace file, a decision record's folder, or a made workload (`name` or `name:key=value,…`). `rate` is
    how many requests come per second on average; `scale` multiplies the rate that the source has. Of closed loops both
    hold for the sessions' starts, not for their pauses. A run's seed is that of a made workload and of a random spread.
    """

    source: str = "conversation"
    trace_format: TraceFormat | None = None
    limit: int | None = None
    duration_s: float | None = None
    rate: float | None = None
    scale: float = 1.0
    spread: Spread = Spread.AS_STAMPED


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run. `cluster` is a TOML file or the words of a made cluster, `shape` more keys of the latter.
    `config` is a piece of TOML that goes on top."""

    cluster: str = "default"
    shape: dict[str, str] = {}
    config: str = ""
    policy: str = "cost"
    seed: int = 0
    heartbeat_s: float | None = None
    work: Work = Work()
    physics: Physics = Physics()


def execute(run: Run, on_progress: Progress = lambda _arrived, _now: None) -> Outcome:
    """Do it. Raises what a cluster, a policy, a trace or a made workload is refused with."""
    return simulate(cluster_of(run), arrivals(run.work, run.seed), run.physics, on_progress)


def cluster_of(run: Run) -> Config:
    """The run's cluster, under its policy and seed. Raises ConfigError for a piece of TOML that does not fit."""
    path = Path(run.cluster)
    if path.suffix == ".toml" or path.is_file():
        if run.shape:
            raise RunError(f"{run.cluster} is a file: {', '.join(run.shape)} can be set for a made cluster only")
        config = load(path, os.environ)
    else:
        config = made_cluster(run.cluster, run.shape)
    if run.config:
        config = over(config, run.config, "the run's configuration")
    config = with_policy(config, run.policy, run.seed)
    if run.heartbeat_s is not None:
        config = with_changes(config, scheduler=with_changes(config.scheduler, heartbeat_s=run.heartbeat_s))
    return config


def arrivals(work: Work, seed: int) -> Iterator[Arrival]:
    """The requests in the order of their times; those of a made workload are made when they are asked for."""
    for name, value in (("rate", work.rate), ("scale", work.scale)):
        if value is not None and not 0.0 < value < float("inf"):
            raise RunError(f"{name} must be positive and finite, not {value}")
    if is_made(work.source):
        return _made(work, seed)
    return _of_trace(work, seed)


def is_made(source: str) -> bool:
    """Whether a workload is made rather than read: a file that has a generator's name is written with its path."""
    return source.partition(":")[0].strip() in GENERATORS


@lru_cache(maxsize=4)
def trace_of(source: str, trace_format: TraceFormat | None, limit: int | None, spread: Spread, seed: int) -> Trace:
    """A trace is read once per process: the runs of a comparison share it."""
    return load_trace(source, _VOCABULARY, trace_format=trace_format, limit=limit, spread=spread, seed=seed)


def _made(work: Work, seed: int) -> Iterator[Arrival]:
    if work.trace_format is not None:
        raise RunError(f"{work.source} is a made workload: it has no format")
    name, parameters = read_name(work.source)
    count = work.limit
    if count is None and work.duration_s is None:
        count = REQUESTS
    made = generate(
        name, _VOCABULARY, seed=seed, count=count, duration_s=work.duration_s, rate=work.rate, parameters=parameters
    )
    return _scaled(made, work.scale)


def read_trace(work: Work, seed: int) -> Trace:
    """The trace that the work is made of. Raises TraceError."""
    of_spread = seed if work.spread is Spread.RANDOM else 0
    return trace_of(work.source, work.trace_format, work.limit, work.spread, of_spread)


def _of_trace(work: Work, seed: int) -> Iterator[Arrival]:
    trace = read_trace(work, seed)
    scale = work.scale
    if work.rate is not None and trace.arrivals:
        span_s = trace.arrivals[-1].at_s - trace.arrivals[0].at_s
        if not span_s:
            raise RunError(f"{work.source}: all requests have one stamp, so they cannot come at a rate")
        scale *= work.rate * span_s / (len(trace.arrivals) - 1)
    scaled = _scaled(iter(trace.arrivals), scale)
    end_s = work.duration_s
    return scaled if end_s is None else _until(scaled, end_s)


def _scaled(arrivals: Iterator[Arrival], scale: float) -> Iterator[Arrival]:
    if scale == 1.0:
        return arrivals
    return (replace(arrival, at_s=arrival.at_s / scale) for arrival in arrivals)


def _until(arrivals: Iterator[Arrival], end_s: float) -> Iterator[Arrival]:
    for arrival in arrivals:
        if arrival.at_s >= end_s:
            return
        yield arrival
