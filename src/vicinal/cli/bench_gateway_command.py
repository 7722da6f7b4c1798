"""`vicinal bench gateway`: its options, and its tables."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from vicinal.cli.bench_gateway import KINDS, GatewayBench, GatewayFigures, measure
from vicinal.cli.bench_gateway_prompts import PROMPT_TOKENS_MIN
from vicinal.cli.bench_gateway_routers import default_peers
from vicinal.cli.problems import UsageError

_FULL = ("req/s", "chunks/s", "CPU ms", "failed")
_HALF = ("req/s", "CPU ms", "p50", "p99", "token p50", "token p99", "unsent")


def gateway(
    *,
    endpoints: Annotated[int, Parameter(help="Mock engines.")] = 16,
    prompt_tokens: Annotated[int, Parameter(help="Of each prompt; half of it is shared within a group.")] = 2000,
    chunks: Annotated[int, Parameter(help="Tokens of each answer; a streamed one is that many writes.")] = 128,
    groups: Annotated[int, Parameter(help="Shared halves.")] = 64,
    connections: Annotated[int, Parameter(help="Requests under way at saturation.")] = 64,
    seconds: Annotated[float, Parameter(help="Measured time of each load.")] = 5.0,
    warm_s: Annotated[float, Parameter(help="Time of each load before that.")] = 2.0,
    step_ms: Annotated[float, Parameter(help="From token to token of a stream; 0: as fast as engines write.")] = 1.0,
    relays: Annotated[str, Parameter(help="The gateway with so many relays, each of 0,2; 0: one process.")] = "0",
    peers: Annotated[Path | None, Parameter(help="Folder of the peers; else VICINAL_PEERS, else the cache.")] = None,
    only: Annotated[str, Parameter(help="Only routers whose names begin so, such as vicinal,sglang.")] = "",
    json: Annotated[bool, Parameter(help="Print JSON, and nothing else.", negative="")] = False,
) -> None:
    """What a request costs in the gateway, and beside it in sglang-router, vllm-router, Envoy and nginx.

    All stand in turn before the same mock engines, with the same load, and each answer is checked. Prompts are chats:
    text, of which the gateway makes tokens (the packaged tokenizer) with all that belongs to its decision: policy cost,
    index, record, metrics. The engines prefill in no time, so what is measured is the router.

    CPU ms is what the router's whole process tree takes of the CPU per request. That is the figure to compare: engines,
    load and router share this machine, so requests/s depend on all three, and on what else it does. Streams pass one
    token per step and connection: more connections than CONNECTIONS make more chunks/s.

    The latencies are what a router adds, in ms, at half of its own highest rate: to the whole answer (plain), or to the
    first byte and to each token (streamed), against the engines asked directly at the same rate. Where requests stay
    unsent, the machine was too slow for that rate, and its latencies say nothing of the router.

    tests/bench/install_peers.sh (make bench-peers) installs the peers, each in a Python of its own; nginx is the
    system's. A peer that is not there is named as absent. Four minutes with all of them. See docs/performance.md.
    """
    if prompt_tokens < PROMPT_TOKENS_MIN:
        raise UsageError(f"--prompt-tokens must be at least {PROMPT_TOKENS_MIN}, got {prompt_tokens}")
    counts = relays.split(",")
    if not all(count.isdecimal() for count in counts):
        raise UsageError(f"--relays takes numbers such as 0,2, got {relays!r}")
    bench = GatewayBench(
        endpoints=endpoints,
        prompt_tokens=prompt_tokens,
        chunks=chunks,
        groups=groups,
        connections=connections,
        seconds=seconds,
        warm_s=warm_s,
        step_s=step_ms / 1e3,
        relays=tuple(map(int, counts)),
        peers=peers or default_peers(),
        only=tuple(name for name in only.split(",") if name),
    )
    if json:
        print(msgspec.json.encode({"load": bench, "figures": list(measure(bench))}, enc_hook=str).decode())
        return
    console = Console()
    with Console(stderr=True).status("starting mock engines") as status:
        figures = list(measure(bench, lambda now: status.update(f"measuring {now}")))
    for shown in tables(bench, figures):
        console.print(shown)
    for each in figures:
        if each.absent:
            console.print(f"absent: {each.router}, {each.absent}", highlight=False)
        elif each.kind == KINDS[0]:
            console.print(f"{each.router}: {each.settings}", highlight=False)


def tables(bench: GatewayBench, figures: list[GatewayFigures]) -> list[Table]:
    """Saturation and half load, a row per router and kind of answer."""
    load = f"{bench.endpoints} engines, prompts of {bench.prompt_tokens:,} tokens, {bench.chunks} chunks per answer"
    full = Table(title=f"{load}\nsaturation, {bench.connections} connections", title_justify="left")
    half = Table(title="half of that: added latency, ms", title_justify="left")
    for shown, columns in ((full, _FULL), (half, _HALF)):
        for name in ("router", "answers"):
            shown.add_column(name)
        for name in columns:
            shown.add_column(name, justify="right")
    for each in figures:
        if each.absent:
            continue
        numbers = _number(each.requests_per_s, 0), _number(each.chunks_per_s, 0), _number(each.cpu_ms, 3)
        full.add_row(each.router, each.kind, *numbers, f"{each.failed:,}")
        if each.half_rate is not None:
            tails = (each.added_ms.p50, each.added_ms.p99, each.added_token_ms.p50, each.added_token_ms.p99)
            load_row = (
                _number(each.half_rate, 0),
                _number(each.half_cpu_ms, 3),
                *[_number(ms, 2) for ms in tails],
                f"{each.unsent:,}",
            )
            half.add_row(each.router, each.kind, *load_row)
    return [full, half]


def _number(value: float | None, places: int) -> str:
    return "" if value is None else f"{value:,.{places}f}"
