"""`isolation` on the embedded cluster: the main question, for a minute of each arm."""

from dataclasses import dataclass

from vicinal.observe.intervals import interval, paired
from vicinal.replay.summary import CLOCK_DEBT_MAX
from vicinal.scenarios.figures import figures
from vicinal.scenarios.isolation import LONG_TOKENS, ORDINARY_TOKENS, PLAIN, QUOTA_TOKENS_PER_S, QUOTAS, SOURCE, TIMES
from vicinal.scenarios.live import LiveLaboratory, LiveRun, clock_debt, p99_s, worth
from vicinal.scenarios.report import Report, at_least, at_most

USUAL, PRESSED, BARE = "live: within the quota", f"live: {TIMES} times", f"live: {TIMES} times, no isolation"


@dataclass(frozen=True, slots=True)
class Size:
    seconds: float = 60.0


WHOLE = Size()


def isolation_live(laboratory: LiveLaboratory) -> Report:
    """The p99 of a tenant within its quota, on emulated engines behind the real gateway."""
    return of_size(laboratory, WHOLE)


def of_size(laboratory: LiveLaboratory, size: Size) -> Report:
    """The same, shorter."""

    def run(times: float, tokens: int, config: str) -> LiveRun:
        rate = times * QUOTA_TOKENS_PER_S / tokens
        return LiveRun(work=SOURCE.format(rate=rate, tokens=tokens), duration_s=size.seconds, config=config)

    arms = laboratory.arms(
        {
            USUAL: run(1, ORDINARY_TOKENS, QUOTAS),
            PRESSED: run(TIMES, LONG_TOKENS, QUOTAS),
            BARE: run(TIMES, LONG_TOKENS, PLAIN),
        },
        "isolation, live",
    )
    found = {name: [p99_s(lived.result, "a") for lived in each] for name, each in arms.items()}
    with_it, without = paired(found[PRESSED], found[USUAL]), paired(found[BARE], found[USUAL])
    return Report(
        name="isolation",
        about="p99 of the TTFT of tenant a on emulated engines, whatever tenant b sends",
        seeds=laboratory.seeds,
        arms={
            name: {
                "others_p99_s": interval(found[name]).mean,
                "others_p99_half_width_s": interval(found[name]).half_width,
                "clock_debt": max(lived.result.clock_debt for lived in each),
                **figures([lived.result for lived in each]),
            }
            for name, each in arms.items()
        },
        verdicts=[
            at_most(
                f"p99 TTFT of a: longer beside {TIMES} quotas than beside one by, with its interval",
                with_it.mean + (with_it.half_width or 0.0),
                0.1,
            ),
            at_least("the same without isolation", without.mean, 0.5),
            at_most("clock debt of the emulated engines", clock_debt(arms), CLOCK_DEBT_MAX),
        ],
        notes=[worth(arms)],
    )
