"""A summary for people: one table, with what is missing left out and what is not valid said first."""

from rich.table import Table

from vicinal.observe.spread import Spread
from vicinal.replay.summary import CLOCK_DEBT_MAX, Summary


def render(summary: Summary) -> Table:
    """A rich table of the whole summary. Times are in milliseconds of model time unless they say otherwise."""
    table = Table(title=f"{summary.policy}, seed {summary.seed}, speed {summary.speed:g}", title_justify="left")
    for column in ("", "mean", "p50", "p90", "p99"):
        table.add_column(column, justify="left" if not column else "right")
    if summary.valid is False:
        table.caption = (
            f"[bold red]not valid:[/] engines ran {summary.clock_debt:.1%} late (limit {CLOCK_DEBT_MAX:.0%}); "
            "lower --speed"
        )
    for name, spread in (("TTFT ms", summary.ttft_s), ("TPOT ms", summary.tpot_s), ("E2E ms", summary.e2e_s)):
        table.add_row(name, *_milliseconds(spread))
    overhead, decision = summary.gateway_overhead_s, summary.decision_us
    table.add_row("gateway ms (wall)", "", _ms(overhead.p50), "", _ms(overhead.p99))
    table.add_row("decision µs (wall)", "", _number(decision.p50), "", _number(decision.p99), end_section=True)
    table.add_row("completed", f"{summary.completed} of {summary.requests}")
    table.add_row("failed, shed", f"{summary.failed}, {summary.shed}")
    table.add_row("goodput req/s", "–" if summary.goodput is None else f"{summary.goodput:.2f}")
    table.add_row("prefix hit rate", "–" if summary.prefix_hit_rate is None else f"{summary.prefix_hit_rate:.1%}")
    for tier, share in summary.hit_rate_by_tier.items():
        table.add_row(f"prefix hits in {tier}", f"{share:.1%}")
    table.add_row("clock debt", "–" if summary.clock_debt is None else f"{summary.clock_debt:.2%}", end_section=True)
    for level, moved in summary.kv_bytes.items():
        if moved:
            table.add_row(f"KV GB {level.replace('_', ' ')}", f"{moved / 1e9:.2f}")
    return table


def _milliseconds(spread: Spread) -> tuple[str, str, str, str]:
    return _ms(spread.mean), _ms(spread.p50), _ms(spread.p90), _ms(spread.p99)


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:,.1f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
