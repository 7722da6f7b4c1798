"""Runs of several policies on the same work, with the same seeds, side by side."""

from collections.abc import Callable, Sequence

import msgspec

from vicinal.observe.intervals import Interval, interval, paired
from vicinal.sim.result import Result
from vicinal.topology.graph import Level


class Arm(msgspec.Struct, frozen=True):
    """A policy at one point of a sweep, over its seeds. `ttft_vs_first` is the relative difference of the mean TTFT to
    the first policy's, seed by seed; None for that policy, and where a run was unstable. Unknown figures are None."""

    policy: str
    point: dict[str, str]
    seeds: int
    unstable: int
    ttft_mean_s: Interval | None
    ttft_p99_s: Interval | None
    tpot_p99_s: Interval | None
    goodput: Interval | None
    attainment: Interval | None
    prefix_hit_rate: Interval | None
    far_gbytes: Interval | None
    ttft_vs_first: Interval | None


def far_bytes(result: Result) -> int:
    """KV that crossed a spine or more, or a distance that nobody knows."""
    return sum(result.kv_bytes[level.label] for level in Level if level >= Level.POD)


def arm(policy: str, point: dict[str, str], results: Sequence[Result], first: Sequence[Result] | None) -> Arm:
    """What these seeds come to, beside the first policy's runs of the same seeds."""
    stable = all(result.unstable is None for result in (*results, *(first or ())))
    versus = None
    if first is not None and stable:
        own, theirs = ([result.ttft_s.mean for result in each] for each in (results, first))
        known = [(a, b) for a, b in zip(own, theirs, strict=True) if a is not None and b]
        versus = paired([a for a, _ in known], [b for _, b in known]) if known else None
    return Arm(
        policy=policy,
        point=point,
        seeds=len(results),
        unstable=sum(result.unstable is not None for result in results),
        ttft_mean_s=_over(results, lambda result: result.ttft_s.mean),
        ttft_p99_s=_over(results, lambda result: result.ttft_s.p99),
        tpot_p99_s=_over(results, lambda result: result.tpot_s.p99),
        goodput=_over(results, lambda result: result.goodput),
        attainment=_over(results, lambda result: result.attainment),
        prefix_hit_rate=_over(results, lambda result: result.prefix_hit_rate),
        far_gbytes=_over(results, lambda result: far_bytes(result) / 1e9),
        ttft_vs_first=versus,
    )


def _over(results: Sequence[Result], figure: Callable[[Result], float | None]) -> Interval | None:
    values = [value for result in results if (value := figure(result)) is not None]
    return interval(values) if values else None
