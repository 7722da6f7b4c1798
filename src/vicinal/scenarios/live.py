"""Where `--live` scenarios make their runs: the embedded cluster of `vicinal up`, one after the other.

The gateway is the real one, engines are emulated, clients send over HTTP at their own times; all share this machine's
cores. So every arm says its clock debt: above 5 % its figures say more about the machine than about the scheduler.
"""

import asyncio
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import uvloop

from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.config.load import over
from vicinal.enginemodel.profiles import profile
from vicinal.replay.answer import Progress
from vicinal.replay.process import MadeWorkload
from vicinal.replay.summary import CLOCK_DEBT_MAX
from vicinal.scenarios.laboratory import TRUSTED
from vicinal.scenarios.report import ScenarioError
from vicinal.sim.result import Result
from vicinal.wiring.embedded import Embedded, embedded
from vicinal.wiring.played import played_result
from vicinal.workload.returns import ONCE, Returns

FIRST_PORT, LAST_PORT, PORTS = 18_000, 30_000, 40


class LiveRun(msgspec.Struct, frozen=True, kw_only=True):
    """`work` is a made workload in words, for `duration_s` of model time; `config` is a piece of TOML on top of the
    default cluster. Tenants and classes of service go as headers that the gateway trusts."""

    work: str
    duration_s: float
    policy: str = "cost"
    config: str = ""
    returns: Returns = ONCE


@dataclass(frozen=True, slots=True)
class Lived:
    """A run's result, and how many requests the scheduler held, and knew of, at most at a time."""

    result: Result
    held_most: int
    kept_most: int


@dataclass(frozen=True, slots=True)
class LiveLaboratory:
    """`seeds` runs of each arm at `speed` model seconds a second. `say` is told what is being done."""

    seeds: int
    speed: float
    say: Callable[[str], None]

    def arms(self, runs: Mapping[str, LiveRun], about: str) -> dict[str, list[Lived]]:
        """Every arm with every seed. Seeds go round all arms before the next one begins, so that a machine that is slow
        for a while is so for all of them."""
        found: dict[str, list[Lived]] = {name: [] for name in runs}
        for seed in range(self.seeds):
            for name, run in runs.items():
                self.say(f"{about}: {name}, seed {seed}")
                found[name].append(self._one(run, seed, f"{about}: {name}, seed {seed}"))
        return found

    def _one(self, run: LiveRun, seed: int, about: str) -> Lived:
        def tell(progress: Progress) -> None:
            self.say(f"{about}: {progress.sent} of {progress.total} sent, {progress.completed} answered")

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_live(run, seed, self.speed, tell))


def clock_debt(arms: Mapping[str, list[Lived]]) -> float:
    """The worst of all runs."""
    return max(lived.result.clock_debt for each in arms.values() for lived in each)


def p99_s(result: Result, tenant: str) -> float:
    """Of a tenant's TTFT; infinite where nobody was served."""
    return result.tenants[tenant].ttft_s.p99 or float("inf")


def worth(arms: Mapping[str, list[Lived]]) -> str:
    """A note on what this machine lets the figures mean."""
    worst = clock_debt(arms)
    if worst <= CLOCK_DEBT_MAX:
        return f"Emulated engines were late by {worst:.1%} of a run at most (clock debt), so the figures are valid."
    return (
        f"This machine was too slow: emulated engines were late by {worst:.1%} of a run (clock debt; at most "
        f"{CLOCK_DEBT_MAX:.0%} is tolerable), so these figures mean nothing. Take a smaller --speed or an idle machine."
    )


async def _live(run: LiveRun, seed: int, speed: float, tell: Callable[[Progress], None]) -> Lived:
    with tempfile.TemporaryDirectory(prefix="vicinal-") as record:
        return await _recorded(run, seed, speed, record, tell)


async def _recorded(run: LiveRun, seed: int, speed: float, record: str, tell: Callable[[Progress], None]) -> Lived:
    """What the scheduler decides is written to the folder `record`, as always."""
    config = _config(run, seed, speed, record)
    workload = MadeWorkload(run.work, seed=seed, duration_s=run.duration_s)
    began_s = time.monotonic()
    async with embedded(config) as running:
        seen = _Seen(running)
        watching = asyncio.ensure_future(seen.watch())
        try:
            played = await running.play(workload, tell, run.returns)
        finally:
            watching.cancel()
        decided_us = list(running.live.driver.decision_us)
    fit = profile(config.model.profile)
    took_s = time.monotonic() - began_s
    result = played_result(config, played, running.over, lambda n: fit.prefill_s(n, 0), decided_us, took_s)
    return Lived(result, seen.held_most, seen.kept_most)


class _Seen:
    """Looks at the scheduler ten times a second."""

    def __init__(self, running: Embedded) -> None:
        self.held_most = self.kept_most = 0
        self._scheduler = running.live.scheduler

    async def watch(self) -> None:
        while True:
            held = sum(one.held_since_s is not None for one in self._scheduler.requests.values())
            self.held_most = max(self.held_most, held)
            self.kept_most = max(self.kept_most, len(self._scheduler.requests))
            await asyncio.sleep(0.1)


def _config(run: LiveRun, seed: int, speed: float, record: str) -> Config:
    made = default_cluster(_free_row(PORTS), policy=run.policy, seed=seed, speed=speed, record_directory=record)
    return over(over(made, TRUSTED, "the live laboratory"), run.config, "the run's configuration")


def _free_row(count: int) -> int:
    """The first of so many ports in a row that nobody uses now."""
    for first in range(FIRST_PORT, LAST_PORT, count):
        if all(_free(port) for port in range(first, first + count)):
            return first
    raise ScenarioError(f"no {count} free ports in a row between {FIRST_PORT} and {LAST_PORT}")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
