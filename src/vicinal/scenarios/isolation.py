"""`isolation`: whether a tenant within its quota notices what another one does.

Tenant a chats. Tenant b has a quota of tokens, and sends as many as it may in ordinary prompts; or ten times as many,
in prompts of 64,000. With quotas, fair turns and lanes a's p99 must be the same; without them it is not. Two more
editions of the question: reports and KV events that come late, so that the scheduler decides on what was true some
seconds ago; and 27 tenants of whom one floods a small fleet for a while (the workload `hot_tenant`), within its quota
or ten times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vicinal.observe.intervals import Interval, interval, paired
from vicinal.scenarios.figures import figures
from vicinal.scenarios.laboratory import TRUSTED, Laboratory
from vicinal.scenarios.report import Figures, Report, Verdict, at_least, at_most
from vicinal.sim.faults import EventFaults, Faults, ReportFaults
from vicinal.sim.result import Result
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics

CLUSTER = "racks=1,prefill=4,decode=4,block_tokens=64"
LONG_TOKENS, ORDINARY_TOKENS = 64_000, 2_000
QUOTA_TOKENS_PER_S = 20_000
TIMES = 10
SOURCE = "tenants:names=a/b,rates=6/{rate:g},text_tokens=2048/{tokens},text_sigma=0.5/0,output_tokens=128/64"
QUOTAS = f"""{TRUSTED}
[[tenant]]
name = "b"
tokens_per_s = {1.1 * QUOTA_TOKENS_PER_S:.0f}
"""
PLAIN = '[flow]\nfairness = "none"\nlong_share = 1.0\n'
HOT_CLUSTER = "racks=1,prefill=1,decode=1,block_tokens=64"
HOT = "hot_tenant:flood={flood:g},flood_from_s={begin:g},flood_s={lasts:g}"
HOT_RATE = 6.0
HOT_FLOOD = 0.6
"""That of a tenant which keeps to its quota, as a share of what all others send."""
HOT_QUOTAS = f"""{TRUSTED}
[[tenant]]
name = "*"
tokens_per_s = 6000
burst_s = 20
"""
LATE = Faults(ReportFaults(delay_s=3.0, jitter_s=2.0), EventFaults(delay_s=5.0))


@dataclass(frozen=True, slots=True)
class Size:
    seconds: float = 300.0


WHOLE = Size()
SMALL = Size(60.0)


@dataclass(frozen=True, slots=True)
class Question:
    """Two arms that a must not tell apart, with isolation, and two that show that it would without."""

    about: str
    usual: Run
    pressed: Run
    plain: Run

    @property
    def runs(self) -> dict[str, Run]:
        return {
            f"{self.about}: within the quota": self.usual,
            f"{self.about}: {TIMES} times": self.pressed,
            f"{self.about}: {TIMES} times, no isolation": self.plain,
        }


def isolation(laboratory: Laboratory) -> Report:
    """The p99 of a tenant within its quota, beside one that keeps to its own and one that does not."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: Laboratory, size: Size) -> Report:
    """The same, shorter."""
    questions = [_long_prompts(size), _late(size), _hot_tenant(size)]
    runs = {name: run for question in questions for name, run in question.runs.items()}
    results = laboratory.arms(runs, "isolation")
    verdicts: list[Verdict] = []
    for question in questions:
        verdicts += _verdicts(question, results)
    return Report(
        name="isolation",
        about="p99 of the TTFT of a tenant within its quota (a; or the largest of 26), whatever another one sends",
        seeds=laboratory.seeds,
        arms={name: _figures(each) for name, each in results.items()},
        verdicts=verdicts,
    )


def _long_prompts(size: Size, about: str = "long prompts", faults: Faults | None = None) -> Question:
    def run(times: float, tokens: int, config: str) -> Run:
        rate = times * QUOTA_TOKENS_PER_S / tokens
        return Run(
            cluster=CLUSTER,
            config=config,
            work=Work(source=SOURCE.format(rate=rate, tokens=tokens), duration_s=size.seconds),
            physics=Physics(until_unstable=False, faults=faults or Faults()),
        )

    return Question(
        about, run(1, ORDINARY_TOKENS, QUOTAS), run(TIMES, LONG_TOKENS, QUOTAS), run(TIMES, LONG_TOKENS, PLAIN)
    )


def _late(size: Size) -> Question:
    return _long_prompts(size, "late metadata", LATE)


def _hot_tenant(size: Size) -> Question:
    """The flood lasts from a quarter to three quarters of the time."""

    def run(times: float, config: str) -> Run:
        words = HOT.format(flood=times * HOT_FLOOD, begin=size.seconds / 4, lasts=size.seconds / 2)
        return Run(
            cluster=HOT_CLUSTER,
            config=config,
            work=Work(source=words, rate=HOT_RATE, duration_s=size.seconds),
            physics=Physics(until_unstable=False),
        )

    return Question("hot tenant", run(1, HOT_QUOTAS), run(TIMES, HOT_QUOTAS), run(TIMES, PLAIN))


def _verdicts(question: Question, results: Mapping[str, Sequence[Result]]) -> list[Verdict]:
    usual, pressed, plain = (results[name] for name in question.runs)
    with_it, without = _difference(pressed, usual), _difference(plain, usual)
    return [
        at_most(
            f"{question.about}: p99 TTFT of the others, beside {TIMES} quotas ÷ beside one - 1, with its interval",
            abs(with_it.mean) + (with_it.half_width or 0.0),
            0.1,
        ),
        at_least(f"{question.about}: the same without isolation", without.mean, 0.5),
        at_least(f"{question.about}: share of the others' requests that were served", _served(pressed), 0.999),
    ]


def _difference(results: Sequence[Result], to: Sequence[Result]) -> Interval:
    return paired(_p99_s(results), _p99_s(to))


def _p99_s(results: Sequence[Result]) -> list[float]:
    """Of tenant a, or of the largest of many: whoever is first in the alphabet."""
    return [result.tenants[min(result.tenants)].ttft_s.p99 or float("inf") for result in results]


def _served(results: Sequence[Result]) -> float:
    of = [result.tenants[min(result.tenants)] for result in results]
    served = sum(tenant.requests for tenant in of)
    return served / (served + sum(tenant.refused for tenant in of))


def _figures(results: Sequence[Result]) -> Figures:
    p99_s = interval(_p99_s(results))
    return {
        "others_p99_s": p99_s.mean,
        "others_p99_half_width_s": p99_s.half_width,
        "others_served": _served(results),
        **figures(results),
    }
