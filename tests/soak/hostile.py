"""Hostile and normal clients of one gateway at once, for as long as one likes.

    vicinal engine --config tests/soak/cluster.toml &
    vicinal serve --config tests/soak/cluster.toml &
    python -m tests.soak.hostile --url http://127.0.0.1:9700 --model llama-3.1-70b --minutes 60 --pid $!

Prints a line a minute: normal requests that were answered rightly and those that were not, their latency, hostile
actions by kind, memory and descriptors of the given processes and their children. At the end, the slopes of both over
the second half. Exit code 1 when a normal request was harmed, 2 when a process that was given has gone.
"""

import argparse
import asyncio
import random
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.soak.actions import WEIGHTS, Action, SurpriseError, Target
from tests.soak.normal import Normal, questions
from tests.soak.processes import Sample, sample, slopes_per_hour
from tests.soak.wire import WrongAnswerError

_SAMPLE_S = 5.0
_EXPECTED = (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError)
"""What may well come of behaving badly."""


@dataclass(frozen=True, slots=True)
class Options:
    url: str
    model: str
    minutes: float
    pids: Sequence[int] = ()
    normal_per_s: float = 10.0
    hostile_per_s: float = 10.0
    hostile_at_once: int = 200
    questions: int = 48
    seed: int = 0
    report_s: float = 60.0
    hold_s: float = 90.0


@dataclass(slots=True)
class Soak:
    """What happened so far."""

    options: Options
    done: Counter[str] = field(default_factory=Counter)
    surprises: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    skipped: int = 0


async def soak(options: Options, stop: asyncio.Event | None = None) -> int:
    """Run, print, and return the exit code."""
    parts = urlsplit(options.url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    chance = random.Random(options.seed)
    asked = questions(options.model, options.questions, chance)
    normal = Normal(host, port, asked, chance)
    target = Target(host, port, asked, chance, hold_s=options.hold_s)
    state = Soak(options)
    stop = stop or asyncio.Event()
    await normal.learn()
    _say(f"{len(asked)} questions asked once; {options.minutes:g} minutes begin")
    async with asyncio.TaskGroup() as tasks:
        ticking = [
            tasks.create_task(_normal(normal, options, chance)),
            tasks.create_task(_hostile(target, state)),
            tasks.create_task(_sampling(state)),
            tasks.create_task(_reporting(normal, state)),
        ]
        try:
            async with asyncio.timeout(options.minutes * 60):
                await stop.wait()
        except TimeoutError:
            pass
        for task in ticking:
            task.cancel()
    normal.close()
    return _conclude(normal, state)


async def _normal(normal: Normal, options: Options, chance: random.Random) -> None:
    """Arrivals at random, whether or not earlier ones are answered: a slow server does not get fewer."""
    async with asyncio.TaskGroup() as asking:
        while True:
            await asyncio.sleep(chance.expovariate(options.normal_per_s))
            asking.create_task(normal.ask_in_pieces() if chance.random() < 0.02 else normal.ask())


async def _hostile(target: Target, state: Soak) -> None:
    chance, options = target.chance, state.options
    actions, weights = list(WEIGHTS), list(WEIGHTS.values())
    acting: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            await asyncio.sleep(chance.expovariate(options.hostile_per_s))
            if len(acting) >= options.hostile_at_once:
                state.skipped += 1
                continue
            (action,) = chance.choices(actions, weights)
            task = group.create_task(_act(action, target, state))
            acting.add(task)
            task.add_done_callback(acting.discard)


async def _act(action: Action, target: Target, state: Soak) -> None:
    name = action.__name__
    try:
        async with asyncio.timeout(target.hold_s + 30.0):
            await action(target)
    except _EXPECTED:
        pass
    except (SurpriseError, WrongAnswerError, ValueError) as error:
        state.surprises[f"{name}: {error}"[:200]] += 1
    state.done[name] += 1


async def _sampling(state: Soak) -> None:
    loop = asyncio.get_running_loop()
    while True:
        state.samples.append(sample(state.options.pids, loop.time()))
        await asyncio.sleep(_SAMPLE_S)


async def _reporting(normal: Normal, state: Soak) -> None:
    ok = failed = minute = 0
    done: Counter[str] = Counter()
    while True:
        await asyncio.sleep(state.options.report_s)
        minute += 1
        tally, last = normal.tally, state.samples[-1]
        kinds = " ".join(f"{name}={number}" for name, number in sorted((state.done - done).items()))
        _say(
            f"{minute:3d} ok {tally.ok - ok} failed {tally.failed - failed} "
            f"first {_latency(tally.to_first_s)} whole {_latency(tally.whole_s)} "
            f"rss {last.rss_mib:.1f} MiB fds {last.descriptors} processes {last.processes} "
            f"surprises {state.surprises.total()} skipped {state.skipped} | {kinds}"
        )
        ok, failed, done = tally.ok, tally.failed, Counter(state.done)
        tally.to_first_s, tally.whole_s = [], []


def _latency(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"p50 {p50 * 1e3:.0f} p99 {p99 * 1e3:.0f} ms"


def _conclude(normal: Normal, state: Soak) -> int:
    tally = normal.tally
    _say(f"normal requests: {tally.ok} right, {tally.failed} harmed; hostile actions: {state.done.total()}")
    for what, counted in (("harm", tally.reasons), ("surprise", state.surprises)):
        for reason, number in counted.most_common(20):
            _say(f"{what} {number} x {reason}")
    slopes = slopes_per_hour(state.samples)
    if state.options.pids and slopes is not None:
        first, last = state.samples[0], state.samples[-1]
        _say(f"rss {first.rss_mib:.1f} -> {last.rss_mib:.1f} MiB, slope of the second half {slopes[0]:+.2f} MiB/h")
        _say(f"fds {first.descriptors} -> {last.descriptors}, slope of the second half {slopes[1]:+.2f} per hour")
    if any(last.processes < len(state.options.pids) for last in state.samples[-1:]):
        _say("a process that was watched has gone")
        return 2
    return 1 if tally.failed or not tally.ok else 0


def _say(text: str) -> None:
    print(text, flush=True)


async def _main(options: Options) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await soak(options, stop)


def main() -> int:
    words = argparse.ArgumentParser(description="Hostile and normal clients of one gateway.")
    words.add_argument("--url", required=True)
    words.add_argument("--model", required=True)
    words.add_argument("--minutes", type=float, default=60.0)
    words.add_argument("--pid", type=int, action="append", default=[], help="a process to watch, with its children")
    words.add_argument("--normal-per-s", type=float, default=10.0)
    words.add_argument("--hostile-per-s", type=float, default=10.0)
    words.add_argument("--seed", type=int, default=0)
    said = words.parse_args()
    options = Options(
        said.url, said.model, said.minutes, said.pid, said.normal_per_s, said.hostile_per_s, seed=said.seed
    )
    return asyncio.run(_main(options))


if __name__ == "__main__":
    sys.exit(main())
