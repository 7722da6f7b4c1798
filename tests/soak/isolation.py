"""How much a slow reader and streams of 16 MiB bodies move another client's times.

    python -m tests.soak.isolation [--relays N] [--runs 5] [--seconds 15] [--kinds text,ids,image] [--inline]

Mock engines, the gateway (`vicinal serve`) and the crowd are processes of their own; this one is the client that is
measured: `RATE` small streamed requests per second, each answered with a chunk every 20 ms. Each word of
`--kinds` is a stream of bodies on one connection (isolation_crowd.py). It measures alone and with
the crowd in turn, and prints the medians over all runs. `--inline` has the gateway read all bodies by itself.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from tests.ports import free_port
from tests.soak.isolation_engine import CHUNKS

RATE = 25.0
_ENGINES = 2
_BODY = b'{"model":"m","prompt":"Tell me of caches, please.","stream":true,"max_tokens":25}'
_REQUEST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


@dataclass
class Times:
    """Seconds: to the first event of an answer, and between its pieces."""

    first_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    failed: int = 0

    def figures(self) -> dict[str, float]:
        """Milliseconds."""
        made = {}
        for name, values in (("ttft", self.first_s), ("gap", self.gaps_s)):
            ordered = sorted(values)
            for share in (50, 99):
                made[f"{name}_p{share}"] = ordered[min(len(ordered) - 1, len(ordered) * share // 100)] * 1000
            made[f"{name}_max"] = ordered[-1] * 1000
        return made


async def _ask(port: int, times: Times) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        began_s = last_s = time.perf_counter()
        writer.write(_REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head:
            times.failed += 1
            return
        first = True
        seen = b""
        while not seen.endswith(b"\r\n0\r\n\r\n"):
            piece = await reader.read(65536)
            if not piece:
                times.failed += 1
                return
            now_s = time.perf_counter()
            (times.first_s if first else times.gaps_s).append(now_s - (began_s if first else last_s))
            first, last_s = False, now_s
            seen = (seen + piece)[-16:]
    except (ConnectionError, asyncio.IncompleteReadError):
        times.failed += 1
    finally:
        writer.close()


async def _steady(port: int, seconds: float) -> Times:
    loop, times, tasks = asyncio.get_running_loop(), Times(), []
    began_s = loop.time()
    for number in range(int(RATE * seconds)):
        await asyncio.sleep(max(0.0, began_s + number / RATE - loop.time()))
        tasks.append(asyncio.ensure_future(_ask(port, times)))
    await asyncio.gather(*tasks)
    return times


class Program:
    """A child process that ends when its standard input closes, or when it is terminated."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, module: str, *arguments: str) -> "Program":
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(sys.executable, "-m", module, *arguments, stdin=pipe, stdout=pipe)
        )

    async def line(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    async def end(self) -> bytes:
        """What it says at its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        said = await self.process.stdout.read()
        await self.process.wait()
        return said

    async def terminate(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()
            await self.process.wait()


def _config(folder: Path, ports: list[int], port: int, admin_port: int, relays: int, inline: bool) -> Path:
    endpoints = "".join(
        f'\n[[endpoint]]\nid = "e{n}"\nurl = "http://127.0.0.1:{each}"\nhand_off = false\nkv_blocks = 100000\n'
        for n, each in enumerate(ports)
    )
    path = folder / "vicinal.toml"
    path.write_text(f"""
[model]
name = "m"
profile = "llama-3.1-70b-h100-tp8-vllm"
tokens_max = 1000000
kv_bytes_per_token = 327680
tokenizer = "tiny"
[server]
port = {port}
admin_port = {admin_port}
relays = {relays}
{"long_body_bytes = 1000000000" if inline else ""}
[record]
directory = "{folder / "record"}"
{endpoints}""")
    return path


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = await Program.start("tests.soak.isolation_engine", str(_ENGINES))
        stack.push_async_callback(engines.end)
        ports = json.loads(await engines.line())
        port = free_port()
        path = _config(folder, ports, port, free_port(), arguments.relays, arguments.inline)
        gateway = await Program.start("vicinal.cli.main", "serve", "--config", str(path))
        stack.push_async_callback(gateway.terminate)
        await gateway.line()
        await _ready(port)
        await _steady(port, 3.0)
        alone, crowded, answered = [], [], []
        for run in range(arguments.runs):
            for with_crowd in ((False, True), (True, False))[run % 2]:
                if with_crowd:
                    crowd = await Program.start("tests.soak.isolation_crowd", str(port), *arguments.kinds)
                    await crowd.line()
                    await asyncio.sleep(2.0)
                    crowded.append(await _steady(port, arguments.seconds))
                    answered.append(json.loads(await crowd.end()))
                    await asyncio.sleep(3.0)
                else:
                    alone.append(await _steady(port, arguments.seconds))
        return {
            "alone": _medians(alone),
            "crowded": _medians(crowded),
            "each p99 alone": [round(times.figures()["ttft_p99"], 1) for times in alone],
            "each p99 crowded": [round(times.figures()["ttft_p99"], 1) for times in crowded],
            "failed": sum(times.failed for times in alone + crowded),
            "crowd": answered,
        }


async def _ready(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            times = Times()
            await _ask(port, times)
            if not times.failed and len(times.gaps_s) > CHUNKS // 2:
                return
            await asyncio.sleep(0.1)


def _medians(runs: list[Times]) -> dict[str, float]:
    figures = [times.figures() for times in runs]
    return {name: round(statistics.median(each[name] for each in figures), 1) for name in figures[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--relays", type=int, default=0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--kinds", nargs="*", default=["text,ids,image"])
    parser.add_argument("--inline", action="store_true")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(measure(parser.parse_args())), indent=1))


if __name__ == "__main__":
    main()
