"""How fast a simulated fleet runs: 16 aggregated endpoints, blocks of 512 tokens, policy `cost`, one core.

Requests come from the Mooncake conversation trace where there is one, and are made otherwise. A run is timed from
reading the trace to its figures. Beside it stands Dynamo's offline simulator, where it is installed
(cli/bench_dynamo.py): both run in turn, so that what else the machine does falls on both.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from vicinal.cli.bench_decide import BenchFigure
from vicinal.cli.bench_dynamo import PYTHON_VARIABLE, Timed
from vicinal.cli.bench_dynamo import replay as replay_peer
from vicinal.config.cluster import endpoints
from vicinal.wiring.runs import Run, Work, arrivals, cluster_of, is_made, trace_of
from vicinal.wiring.simulated import Physics, Truth, simulate
from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Piece

AIM_RATIO = 3.0
"""How many times the peer's speed is promised."""

MADE_REQUESTS = 10_000
MEMORY_REQUESTS = 20_000
TURNS = 3
_RATE = 24.0
_LONGER = 4
_TRACES_VARIABLE = "VICINAL_TRACES"
_PHYSICS = Physics(truth=Truth.FIT, noise=0.0, until_unstable=False)


def figures(
    trace: Path | None = None, limit: int | None = None, memory_requests: int = MEMORY_REQUESTS
) -> list[BenchFigure]:
    """All figures, over the first `limit` requests. Without `trace`, that of the folder VICINAL_TRACES, if any.

    Raises TraceError for a trace that cannot be read, and PeerError when VICINAL_DYNAMO_PYTHON names a Python that
    cannot replay it.
    """
    memory = _memory(memory_requests)  # first: what other runs leave behind would hide growth
    run = Run(cluster="aggregated:block_tokens=512", work=_work(trace or _found(), limit), physics=_PHYSICS)
    longer = _timed(run, _LONGER)
    python = os.environ.get(PYTHON_VARIABLE)
    ours: list[Timed] = []
    peers: list[Timed] = []
    with TemporaryDirectory() as folder:
        for _ in range(TURNS):
            ours.append(_timed(run))
            if python and not is_made(run.work.source):
                peers.append(_peer(python, run, Path(folder)))
    name = Path(run.work.source).stem
    cpu, wall = (_rate(f"{name}, requests per second of {kind}", ours, peers, kind) for kind in ("CPU", "wall"))
    cost_us = 1e6 / _per_s(ours, "CPU")
    ratio = 1e6 / _per_s([longer], "CPU") / cost_us
    return [
        cpu,
        wall,
        BenchFigure("CPU per request", cost_us),
        BenchFigure(f"CPU per request, answers {_LONGER} times as long", ratio, "times"),
        memory,
    ]


def _found() -> Path | None:
    folder = os.environ.get(_TRACES_VARIABLE)
    return Path(folder) / "mooncake" / "conversation_trace.jsonl" if folder else None


def _work(trace: Path | None, limit: int | None) -> Work:
    if trace is None:
        return Work(source="conversation", limit=limit or MADE_REQUESTS, rate=_RATE)
    return Work(source=str(trace), limit=limit)


def _timed(run: Run, longer: int = 1) -> Timed:
    """One run. With `longer`, every answer has that many times its tokens."""
    trace_of.cache_clear()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    workload = arrivals(run.work, run.seed)
    done = simulate(cluster_of(run), workload if longer == 1 else _with_longer(workload, longer), run.physics).result
    return Timed(done.requests, time.process_time() - cpu_s, time.perf_counter() - wall_s)


def _with_longer(workload: Iterator[Arrival], times: int) -> Iterator[Arrival]:
    for arrival in workload:
        answer = arrival.answer
        if isinstance(answer, Piece):  # it must be as long as what is generated; who repeats it repeats its beginning
            answer = replace(answer, tokens=answer.tokens * times)
        yield replace(arrival, output_tokens=arrival.output_tokens * times, answer=answer)


def _peer(python: str, run: Run, folder: Path) -> Timed:
    fleet, trace = endpoints(cluster_of(run)), Path(run.work.source)
    if run.work.limit is not None:
        lines = trace.read_text().splitlines(keepends=True)[: run.work.limit]
        trace = folder / trace.name
        trace.write_text("".join(lines))
    return replay_peer(python, trace, len(fleet), fleet[0], folder)


def _rate(name: str, ours: list[Timed], peers: list[Timed], kind: str) -> BenchFigure:
    """Medians. Only CPU time is held to the aim: wall time counts whatever else the machine does."""
    value = _per_s(ours, kind)
    if not peers:
        return BenchFigure(name, value, "1/s")
    peer = _per_s(peers, kind)
    aim = AIM_RATIO if kind == "CPU" else None
    return BenchFigure(name, value, "1/s", peer, value / peer, aim, None if aim is None else value / peer >= aim)


def _per_s(runs: list[Timed], kind: str) -> float:
    return median(run.requests / (run.cpu_s if kind == "CPU" else run.wall_s) for run in runs)


def _memory(requests: int) -> BenchFigure:
    """How much the process grows over the later half of a run, as MB per million requests. Caches are small here, so
    that they are full by then."""
    work = Work(source="conversation", limit=requests, rate=_RATE)
    run = Run(cluster="aggregated:block_tokens=512,kv_tokens=150000", work=work, physics=_PHYSICS)
    seen: list[tuple[int, int]] = []
    simulate(cluster_of(run), arrivals(work, 0), run.physics, lambda arrived, _: seen.append((arrived, _resident())))
    (first, before), (last, after) = seen[len(seen) // 2], seen[-1]
    grown = (after - before) / max(1, last - first)  # bytes each, so MB per million
    return BenchFigure(f"memory per million requests, grown over {last - first:,}", grown, "MB")


def _resident() -> int:
    """Bytes of memory that the process has at present (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
