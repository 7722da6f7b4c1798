"""`head_of_line`: what a few very long prompts do to the short ones behind them, with lanes and without.

Short chats with a very long prompt in a hundred, lengths as in the workload `short_and_long`, from one tenant and in
one band, so that nothing but lanes can tell them apart. Long ones come in bursts: a few are no trouble, because a
choice of endpoints goes around them, and many at once leave nowhere to go. A long prefill takes an endpoint for
seconds; lanes bound on how many endpoints that may happen at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vicinal.observe.intervals import Interval, interval, paired
from vicinal.scenarios.figures import figures
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Figures, Report, at_least, at_most
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics

CLUSTER = "racks=1,prefill=4,decode=4,block_tokens=64"
SOURCE = (
    "tenants:names=a/a,services=short/long,rates={short:g}/{long:g},text_tokens=549/81920,text_sigma=1.22/0.2,"
    "output_tokens=129,output_sigma=1,tokens_most=126195,cv=1/4"
)
KINDS = "".join(
    f'[[service]]\nname = "{name}"\nband = "interactive"\nwait_s_max = 120.0\n' for name in ("short", "long")
)
OFF = "[flow]\nlong_share = 1.0\n"
ON_ARM, OFF_ARM = "lanes", "no lanes"


@dataclass(frozen=True, slots=True)
class Size:
    """Requests per second, the share of them that is long, and seconds."""

    rate_per_s: float = 24.0
    long_share: float = 0.008
    seconds: float = 240.0


WHOLE = Size()
SMALL = Size(seconds=60.0)


def head_of_line(laboratory: Laboratory) -> Report:
    """The p99 of short requests among long ones, with and without lanes."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: Laboratory, size: Size) -> Report:
    """The same, shorter."""
    short, long = size.rate_per_s * (1 - size.long_share), size.rate_per_s * size.long_share
    base = Run(
        cluster=CLUSTER,
        work=Work(source=SOURCE.format(short=short, long=long), duration_s=size.seconds),
        physics=Physics(until_unstable=False),
    )
    runs = {
        ON_ARM: Run(cluster=base.cluster, work=base.work, physics=base.physics, config=KINDS),
        OFF_ARM: Run(cluster=base.cluster, work=base.work, physics=base.physics, config=KINDS + OFF),
    }
    results = laboratory.arms(runs, "head of line")
    short_gain, long_price = (_p99_ratio(results[ON_ARM], results[OFF_ARM], kind) for kind in ("short", "long"))
    return Report(
        name="head_of_line",
        about="p99 of the TTFT of short and long prompts that share a fleet",
        seeds=laboratory.seeds,
        arms={name: _figures(each) for name, each in results.items()},
        verdicts=[
            at_most(
                "p99 TTFT of short requests, with ÷ without lanes, with its interval",
                1 + short_gain.mean + (short_gain.half_width or 0.0),
                0.9,
            ),
            at_most("p99 TTFT of long requests, with ÷ without lanes (the price)", 1 + long_price.mean, 2.0),
            at_least("share of long requests that were served", _served(results[ON_ARM], "long"), 0.99),
        ],
    )


def _p99_ratio(results: Sequence[Result], to: Sequence[Result], kind: str) -> Interval:
    return paired(_p99_s(results, kind), _p99_s(to, kind))


def _p99_s(results: Sequence[Result], kind: str) -> list[float]:
    return [result.services[kind].ttft_s.p99 or float("inf") for result in results]


def _served(results: Sequence[Result], kind: str) -> float:
    served = sum(result.services[kind].requests for result in results)
    return served / (served + sum(result.services[kind].refused for result in results))


def _figures(results: Sequence[Result]) -> Figures:
    return {
        "short_p99_s": interval(_p99_s(results, "short")).mean,
        "short_p99_half_width_s": interval(_p99_s(results, "short")).half_width,
        "long_p99_s": interval(_p99_s(results, "long")).mean,
        **figures(results),
    }
