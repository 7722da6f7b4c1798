"""The live system and the simulator on the same cluster, workload, policy and seed, side by side.

Emulated engines take what the fit says and a replay tells the answer's length, so the simulation is given the same
truth and the same foresight. What is left are the real parts of the live run: sockets, wall time between an event and
its telling, reports in other moments, and the order of what happens at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self

import msgspec
from msgspec.structs import replace as with_changes

from vicinal.config.fleet import Config
from vicinal.observe.two_samples import QUANTILES, TwoSamples, two_samples
from vicinal.replay.answer import Progress
from vicinal.replay.latencies import latencies
from vicinal.replay.process import Workload, arrivals_of
from vicinal.replay.summary import CLOCK_DEBT_MAX, hit_rate
from vicinal.sim.requests import Foresight
from vicinal.topology.graph import Level
from vicinal.wiring.embedded import embedded, vocabulary_of
from vicinal.wiring.live import scrape_s
from vicinal.wiring.simulated import Physics, Truth, simulation
from vicinal.workload.arrival import Arrival


class Side(msgspec.Struct, frozen=True):
    """What came of a run, per completed request in model seconds (TPOT not of one-token answers), and in all."""

    completed: int
    ttft_s: tuple[float, ...]
    tpot_s: tuple[float, ...]
    prefix_hit_rate: float | None
    kv_bytes: dict[str, int]


class Parity(msgspec.Struct, frozen=True):
    """Both runs and how they compare, live over simulated. `clock_debt` is the live run's: above 5 % its figures say
    more about this machine than about the model, and the comparison is not `valid`."""

    policy: str
    seed: int
    speed: float
    requests: int
    clock_debt: float | None
    live: Side
    simulated: Side
    ttft: TwoSamples
    tpot: TwoSamples

    @classmethod
    def of(cls, config: Config, requests: int, clock_debt: float | None, live: Side, simulated: Side) -> Self:
        return cls(
            config.scheduler.policy,
            config.scheduler.seed,
            config.emulator.speed,
            requests,
            clock_debt,
            live,
            simulated,
            two_samples(live.ttft_s, simulated.ttft_s),
            two_samples(live.tpot_s, simulated.tpot_s),
        )

    @property
    def valid(self) -> bool:
        return self.clock_debt is not None and self.clock_debt <= CLOCK_DEBT_MAX

    @property
    def agree(self) -> bool:
        """Neither TTFT nor TPOT tell the two apart."""
        return self.ttft.agree and self.tpot.agree


def figures(found: Parity) -> dict[str, float | None]:
    """The comparison in a row of numbers: how live compares with simulated, and what the live run was worth."""
    live_bytes, simulated_bytes = (sum(side.kv_bytes.values()) for side in (found.live, found.simulated))
    row: dict[str, float | None] = {"speed": found.speed, "clock_debt": found.clock_debt, "requests": found.requests}
    for name, compared in (("ttft", found.ttft), ("tpot", found.tpot)):
        row |= {
            f"{name}_distance": compared.distance,
            f"{name}_critical": compared.critical,
            f"{name}_mean_ratio": compared.mean_ratio,
            **{f"{name}_p{q * 100:g}_ratio": r for q, r in zip(QUANTILES, compared.ratios, strict=True)},
        }
    return row | {
        "kv_bytes_ratio": live_bytes / simulated_bytes if simulated_bytes else None,
        "prefix_hit_rate_live": found.live.prefix_hit_rate,
        "prefix_hit_rate_simulated": found.simulated.prefix_hit_rate,
    }


async def parity(
    config: Config, workload: Workload, on_progress: Callable[[Progress], None] = lambda _progress: None
) -> Parity:
    """Run `workload` on the live embedded cluster of `config`, then in virtual time, and compare.

    Raises what `embedded` and the workload's maker raise, and ValueError when no request was completed.
    """
    live, clock_debt = await live_side(config, workload, on_progress)
    arrivals = arrivals_of(workload, vocabulary_of(config))
    return Parity.of(config, len(arrivals), clock_debt, live, simulated_side(config, arrivals))


async def parity_at_ease(
    config: Config,
    workload: Workload,
    speeds: Sequence[float],
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> Parity:
    """The first valid comparison, trying one speed after the other; the last one, when none is valid.

    What a live run loses to a busy machine counts speed-fold in model time, so a slower one is the remedy.
    """
    for speed in speeds:
        found = await parity(
            with_changes(config, emulator=with_changes(config.emulator, speed=speed)), workload, on_progress
        )
        if found.valid:
            break
    return found


async def live_side(
    config: Config, workload: Workload, on_progress: Callable[[Progress], None] = lambda _progress: None
) -> tuple[Side, float | None]:
    """The live run, and its clock debt."""
    async with embedded(config) as running:
        played = await running.play(workload, on_progress)
        known = latencies(played.answers, played.stamps, running.over.held_s)
    side = Side(
        len(known),
        tuple(ttft_s for one in known if (ttft_s := one.ttft_s) is not None),
        tuple(tpot_s for one in known if (tpot_s := one.tpot_s) is not None),
        hit_rate([one.served.first for one in known]),
        {level.label: played.kv_bytes.get(level.label, 0) for level in Level},
    )
    return side, played.clock_debt


def simulated_side(config: Config, arrivals: list[Arrival]) -> Side:
    """The same in virtual time."""
    speed = config.emulator.speed
    heartbeat_s = scrape_s(config.scheduler.heartbeat_s, speed) * speed
    alike = with_changes(config, scheduler=with_changes(config.scheduler, heartbeat_s=heartbeat_s))
    physics = Physics(truth=Truth.FIT, noise=0.0, foresight=Foresight.KNOWN, until_unstable=False)
    run = simulation(alike, _as_sent(arrivals), physics)
    run.run(lambda _arrived, _now_s: None)
    measures = run.measures
    return Side(
        len(measures.ttft_s),
        tuple(measures.ttft_s),
        tuple(measures.tpot_s),
        measures.cached_tokens / measures.prompt_tokens if measures.prompt_tokens else None,
        {level.label: round(measures.bytes_by_level.get(level.label, 0.0)) for level in Level},
    )


def _as_sent(arrivals: list[Arrival]) -> Iterator[Arrival]:
    """What the load client makes of a workload: it names no tenant, kind or model; and an emulated engine's answer is
    its own words, which no later prompt repeats."""
    for arrival in arrivals:
        yield replace(
            arrival,
            tenant=None,
            service=None,
            model=None,
            priority=0,
            answer=None,
            later=tuple(replace(turn, answer=None) for turn in arrival.later),
        )
