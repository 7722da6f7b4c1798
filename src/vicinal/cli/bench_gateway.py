"""What a request costs in the gateway and in other routers, before the same mock engines, in one run.

Each router in turn, plain and streamed: first at saturation, in a closed loop, then at half of the rate that it
reached, in an open loop, with the engines asked directly at that rate for comparison. Counted is what its whole process
tree takes of the CPU: engines, load and router share the machine, so requests/s say as much of the others as of it.
"""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from vicinal.cli.bench_gateway_answers import Measured, Tail
from vicinal.cli.bench_gateway_engines import HOST, EngineSpec
from vicinal.cli.bench_gateway_load import Job
from vicinal.cli.bench_gateway_prompts import shared_tokens
from vicinal.cli.bench_gateway_routers import Router, Setting, default_peers, environment, free_ports, routers
from vicinal.cli.bench_gateway_tree import tree_cpu_s

START_S = 60.0
KINDS = ("plain", "streamed")


class GatewayBenchError(RuntimeError):
    """A process of the benchmark did not do its part; the text ends with what it said."""


@dataclass(frozen=True, slots=True)
class GatewayBench:
    """The load. `step_s` is the time from token to token of a stream; 0: as fast as the engines can write."""

    endpoints: int = 16
    prompt_tokens: int = 2000
    chunks: int = 128
    groups: int = 64
    connections: int = 64
    seconds: float = 5.0
    warm_s: float = 2.0
    step_s: float = 0.001
    relays: tuple[int, ...] = (0,)
    peers: Path = field(default_factory=default_peers)
    only: tuple[str, ...] = ()


class GatewayFigures(msgspec.Struct, frozen=True):
    """One router with one kind of answer. Latencies are what it adds to the engines asked directly, in milliseconds:
    to the whole answer (plain), to the first byte and to each token (streamed). None where nothing was measured. With
    requests `unsent`, latencies are those of a machine that could not keep up."""

    router: str
    settings: str
    kind: str
    absent: str = ""
    requests_per_s: float | None = None
    chunks_per_s: float | None = None
    cpu_ms: float | None = None
    half_rate: float | None = None
    half_cpu_ms: float | None = None
    added_ms: Tail = Tail(None, None)
    added_token_ms: Tail = Tail(None, None)
    failed: int = 0
    unsent: int = 0


def measure(bench: GatewayBench, tell: Callable[[str], None] = lambda _: None) -> Iterator[GatewayFigures]:
    """Figures as they come, absent routers too. `tell` hears what is measured next. Raises GatewayBenchError."""
    with TemporaryDirectory() as folder, _engines(bench) as ports:
        for kind in KINDS:
            tell(f"direct, {kind}")
            yield _direct(bench, ports, kind)
        for router in routers(bench.relays, bench.peers):
            if bench.only and not any(router.name.startswith(name) for name in bench.only):
                continue
            if router.absent:
                yield GatewayFigures(router.name, router.settings, "", absent=router.absent)
                continue
            for kind in KINDS:
                tell(f"{router.name}, {kind}")
                place = Path(folder) / f"{router.name}-{kind}".replace(" ", "-").replace(",", "")
                place.mkdir()
                yield _measured(bench, router, place, ports, kind)


def _direct(bench: GatewayBench, ports: list[int], kind: str) -> GatewayFigures:
    seen, _ = _loaded(bench, ports, kind)
    return GatewayFigures(
        "direct",
        "no router",
        kind,
        requests_per_s=_rate(seen),
        chunks_per_s=_rate(seen) * bench.chunks if kind == "streamed" else None,
        failed=seen.failed,
    )


def _measured(bench: GatewayBench, router: Router, place: Path, ports: list[int], kind: str) -> GatewayFigures:
    with _started(router, place, ports) as (port, pid):
        full, cpu_s = _loaded(bench, [port], kind, pid)
        half_rate = _rate(full) / 2
        half, half_cpu_s = _loaded(bench, [port], kind, pid, half_rate)
    alone, _ = _loaded(bench, ports, kind, rate=half_rate)
    streamed = kind == "streamed"
    return GatewayFigures(
        router.name,
        router.settings,
        kind,
        requests_per_s=_rate(full),
        chunks_per_s=_rate(full) * bench.chunks if streamed else None,
        cpu_ms=_each_ms(cpu_s, full),
        half_rate=half_rate,
        half_cpu_ms=_each_ms(half_cpu_s, half),
        added_ms=_added(half.first_ms, alone.first_ms) if streamed else _added(half.whole_ms, alone.whole_ms),
        added_token_ms=_added(half.token_ms, alone.token_ms) if streamed else Tail(None, None),
        failed=full.failed + half.failed,
        unsent=half.unsent + alone.unsent,
    )


def _rate(seen: Measured) -> float:
    if not seen.requests:
        raise GatewayBenchError(f"no request was answered as it should be, {seen.failed} failed")
    return seen.requests / seen.seconds


def _each_ms(cpu_s: float, seen: Measured) -> float:
    return 1e3 * cpu_s / max(1, seen.requests)


def _added(through: Tail, alone: Tail) -> Tail:
    def less(value: float | None, by: float | None) -> float | None:
        return None if value is None or by is None else value - by

    return Tail(less(through.p50, alone.p50), less(through.p99, alone.p99))


def _loaded(
    bench: GatewayBench, ports: list[int], kind: str, pid: int | None = None, rate: float | None = None
) -> tuple[Measured, float]:
    """One run of the load generator, and the CPU seconds that the tree of `pid` took while it measured."""
    job = Job(
        ports=ports,
        streamed=kind == "streamed",
        prompt_tokens=bench.prompt_tokens,
        chunks=bench.chunks,
        groups=bench.groups,
        connections=bench.connections,
        warm_s=bench.warm_s,
        seconds=bench.seconds,
        rate=rate,
        seed=time.monotonic_ns() % 2**32,  # no request may be one that a router has seen
    )
    with _process("vicinal.cli.bench_gateway_load", job) as load:
        assert load.stdout is not None
        _line(load)
        before_s = 0.0 if pid is None else tree_cpu_s(pid)
        line = _line(load)
        after_s = 0.0 if pid is None else tree_cpu_s(pid)
    return msgspec.json.decode(line, type=Measured), after_s - before_s


@contextmanager
def _engines(bench: GatewayBench) -> Iterator[list[int]]:
    spec = EngineSpec(
        bench.endpoints, bench.prompt_tokens, shared_tokens(bench.prompt_tokens), bench.chunks, bench.step_s
    )
    with _process("vicinal.cli.bench_gateway_engines", spec) as engines:
        yield msgspec.json.decode(_line(engines), type=list[int])


@contextmanager
def _process(module: str, argument: msgspec.Struct) -> "Iterator[subprocess.Popen[bytes]]":
    """One of our own, which stops when its standard input closes, or by itself."""
    command = [sys.executable, "-m", module, msgspec.json.encode(argument).decode()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        _end(process)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def _started(router: Router, place: Path, ports: list[int]) -> Iterator[tuple[int, int]]:
    """The router's port and process id, once it answers. Its words are in a file of `place`."""
    port, spare = free_ports(2)
    command = router.command(Setting(port, spare, ports, place))
    log = place / "said.txt"
    with log.open("wb") as said:
        env = None if command[0] == sys.executable else environment()
        process = subprocess.Popen(command, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            if not _answers(port, process):
                words = log.read_text(errors="replace").strip()[-800:]
                raise GatewayBenchError(
                    f"{router.name} answered no /health within {START_S:g} s, or ended; it said: {words}"
                )
            yield port, process.pid
        finally:
            _end(process)


def _answers(port: int, process: "subprocess.Popen[bytes]") -> bool:
    """It takes a request now; False when it ends first, or does not in time."""
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2.0) as answer:
                if answer.status == 200:
                    return True
        except OSError:
            time.sleep(0.1)
    return False


def _line(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise GatewayBenchError(f"{process.args!r} ended without its answer")
    return line


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to stop; after a while, make it."""
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
