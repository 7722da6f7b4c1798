"""Results of simulated runs as tables for people."""

from collections.abc import Iterable

from rich.console import Group
from rich.table import Table

from vicinal.domain.outcome import Ending
from vicinal.observe.spread import Spread
from vicinal.sim.result import Result


def one_run(result: Result) -> Group:
    """Everything about one run."""
    table = Table(title=f"{result.policy}, seed {result.seed}", title_justify="left")
    for column in ("", "mean", "p50", "p90", "p99"):
        table.add_column(column, justify="left" if not column else "right")
    for name, spread in (("TTFT ms", result.ttft_s), ("TPOT ms", result.tpot_s), ("E2E ms", result.e2e_s)):
        table.add_row(name, *_milliseconds(spread))
    rest = Table(show_header=False)
    rest.add_column()
    rest.add_column(justify="right")
    for name, value in facts(result):
        rest.add_row(name, value)
    if result.unstable is None:
        return Group(table, rest)
    words = f"[bold red]{result.unstable.words}[/]; the run ended there, so its figures say how long it ran"
    return Group(table, rest, words)


def facts(result: Result) -> Iterable[tuple[str, str]]:
    """The rest of a result, name by name; what is unknown or nothing is left out."""
    yield "completed", f"{result.completed:,} of {result.requests:,}"
    if result.failed or result.shed or result.unfinished:
        yield "failed, shed, unfinished", f"{result.failed:,}, {result.shed:,}, {result.unfinished:,}"
    for ending, count in result.endings.items():
        if ending != Ending.DONE:
            yield f"ended as {ending.replace('_', ' ')}", f"{count:,}"
    if result.rate_per_s is not None:
        yield "arrived req/s", f"{result.rate_per_s:.2f}"
    if result.goodput is not None:
        yield "goodput req/s", f"{result.goodput:.2f}"
    if result.attainment is not None:
        yield "met both objectives", f"{result.attainment:.1%}"
    if result.prefix_hit_rate is not None:
        yield "prefix hit rate", f"{result.prefix_hit_rate:.1%}"
    for tier, share in result.hit_rate_by_tier.items():
        yield f"prefix hits in {tier}", f"{share:.1%}"
    if result.output_tokens_per_s is not None:
        yield "output tokens/s", f"{result.output_tokens_per_s:,.0f}"
    for level, moved in result.kv_bytes.items():
        if moved:
            yield f"KV GB {level.replace('_', ' ')}", f"{moved / 1e9:,.1f}"
    if result.fairness is not None:
        yield "fairness over tenants", f"{result.fairness:.3f}"
    if result.preemptions:
        yield "preemptions", f"{result.preemptions:,}"
    for kind, count in result.warnings.items():
        yield f"warnings: {kind}", f"{count:,}"
    yield "decision µs p50, p99", f"{_number(result.decision_us.p50)}, {_number(result.decision_us.p99)}"
    yield "simulated requests per second", f"{result.simulated_per_s:,.0f}"


def _milliseconds(spread: Spread) -> tuple[str, str, str, str]:
    return _ms(spread.mean), _ms(spread.p50), _ms(spread.p90), _ms(spread.p99)


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:,.1f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
