"""`vicinal up`: the whole system on this machine, without a GPU."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter, validators
from msgspec.structs import replace
from rich.console import Console

from vicinal.cli.live_summary import LiveSummary
from vicinal.cli.loop import run, stop_on_signal
from vicinal.cli.trace_words import tell_trace
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.replay.process import ConversationWorkload, TraceWorkload, Workload
from vicinal.replay.summary import Summary
from vicinal.replay.table import render
from vicinal.wiring.embedded import embedded
from vicinal.workload.prompt import Vocabulary
from vicinal.workload.trace import Spread, TraceFormat, load_trace

CONVERSATION_REQUESTS = 300


def up(
    *,
    replay: Annotated[
        Path | None,
        Parameter(help="A trace, see docs/workloads.md for formats. Without one, a conversation workload is made."),
    ] = None,
    trace_format: Annotated[
        TraceFormat | None, Parameter(name="--format", help="The trace's format, when it is not to be detected.")
    ] = None,
    limit: Annotated[
        int | None, Parameter(validator=validators.Number(gte=0), help="Only so many requests of the workload.")
    ] = None,
    speed: Annotated[float | None, Parameter(help="Model seconds that pass in one second.")] = None,
    policy: Annotated[
        str | None, Parameter(help="The rule that places requests, NAME or NAME:KEY=VALUE+…; see docs/policies.md.")
    ] = None,
    seed: Annotated[int | None, Parameter(help="Seed of every random choice.")] = None,
    spread: Annotated[Spread, Parameter(help="How a trace's requests with one stamp are spaced.")] = Spread.AS_STAMPED,
    scale: Annotated[
        float, Parameter(help="Multiplies a trace's rate: 2 sends twice as many requests per second.")
    ] = 1.0,
    config: Annotated[
        Path | None, Parameter(help="A cluster's TOML file instead of the default one: two racks, 4 P + 4 D.")
    ] = None,
    port: Annotated[
        int, Parameter(help="Port of the API; engines of the default cluster take the ports above.")
    ] = 8000,
    capture: Annotated[
        Path | None, Parameter(help="Write the exact log of events, alarms and seeds to this file.")
    ] = None,
    json: Annotated[bool, Parameter(help="Print the summary as JSON, and nothing else.", negative="")] = False,
    leave: Annotated[bool, Parameter(name="--exit", help="Stop when the workload is done.", negative="")] = False,
) -> None:
    """Start a cluster of emulated engines and the gateway in front of it, and send a workload through.

    The default cluster is two racks of Llama-3.1-70B on 8 H100 each, with leaf uplinks oversubscribed 8:1. When the
    workload is done the cluster goes on serving until it is interrupted, unless --exit is given. Ask `vicinal explain
    --last` why a request went where it did.
    """
    cluster = _cluster(config, port, policy, seed, speed)
    workload: Workload
    if replay is not None:
        # Read here already, so that a wrong trace starts nothing, and what is left out of it is said.
        tell_trace(replay, load_trace(replay, Vocabulary(0, 1), trace_format=trace_format, limit=limit))
        workload = TraceWorkload(str(replay), limit, spread, scale, trace_format)
    else:
        workload = ConversationWorkload(cluster.scheduler.seed, CONVERSATION_REQUESTS if limit is None else limit)
    run(_up(cluster, workload, capture, as_json=json, leave=leave))


def _cluster(path: Path | None, port: int, policy: str | None, seed: int | None, speed: float | None) -> Config:
    """The file's cluster or the default one, with what the command line says on top."""
    cluster = load(path, os.environ) if path is not None else default_cluster(port)
    scheduler = replace(
        cluster.scheduler,
        policy=cluster.scheduler.policy if policy is None else policy,
        seed=cluster.scheduler.seed if seed is None else seed,
    )
    emulator = cluster.emulator if speed is None else replace(cluster.emulator, speed=speed)
    return replace(cluster, scheduler=scheduler, emulator=emulator)


async def _up(cluster: Config, workload: Workload, capture: Path | None, *, as_json: bool, leave: bool) -> None:
    console = Console(stderr=as_json)
    with stop_on_signal() as stop:
        async with embedded(cluster, capture) as running:
            with LiveSummary(console, running.live) as shown:
                summary = await _unless(stop, running.replay(workload, shown.progress))
            if summary is None:
                return
            if as_json:
                print(msgspec.json.encode(summary).decode(), flush=True)
            else:
                console.print(render(summary))
                console.print("Why did the last request go where it did?  [bold]vicinal explain --last[/]")
            if not leave:
                console.print(f"Serving at {running.live.api_url} until Ctrl-C.")
                await stop.wait()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, Summary]) -> Summary | None:
    """The result of `work`, or None when it was stopped first; then it is cancelled."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() and not stop.is_set() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
