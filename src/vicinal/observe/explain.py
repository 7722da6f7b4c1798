"""Explains one decision from its record: the table, the reason in a sentence, and what really happened.

"Why not the emptiest GPU?" has its own file (`comparison.py`); `to_json` puts both together for other programs.
"""

from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from vicinal.observe.comparison import compare, why_not
from vicinal.observe.lines import DecisionRecord, ObservationRecord
from vicinal.observe.read import Case
from vicinal.observe.waits import refusal_sentence, wait_sentence

EMPTIEST = "emptiest_gpu"
BY_SECONDS = "cost"
"""The policy that takes the least total."""

PLANS_SHOWN = 7
"""As many as a terminal of 120 columns has room for."""
"""Policies that take the row with the least total, in seconds; the others have rules of their own."""


def title(record: DecisionRecord) -> str:
    return f"{record.request_id}: {record.policy}, {record.leg}, attempt {record.attempt}; milliseconds"


def table(record: DecisionRecord, plans_max: int = PLANS_SHOWN) -> Table:
    """A plan per column, a term per row, in milliseconds, whichever policy chose; Unknown is a dash.

    The winner comes first, then the named counterfactuals, then the best others as far as `plans_max` allows.
    """
    names: dict[int, list[str]] = {0: ["winner"]}
    for name, index in record.counterfactuals.items():
        names.setdefault(index, []).append(name)
    shown_rows = [*names, *(index for index in range(len(record.rows)) if index not in names)][:plans_max]
    rows = [record.row(index) for index in shown_rows]
    shown = Table(caption_justify="left")
    shown.add_column("")
    for position, index in enumerate(shown_rows):
        marks = [name.replace("_", " ") for name in names.get(index, [])]
        shown.add_column(
            Text("\n".join(marks)), justify="right", vertical="bottom", style="bold green" if position == 0 else ""
        )
    shown.add_row("prefill", *(Text(row.prefill) for row in rows))
    shown.add_row("decode", *(Text("itself" if row.decode == row.prefill else row.decode) for row in rows))
    shown.add_row("action", *(row.action for row in rows))
    shown.add_row("cached tokens", *(f"{row.cached_tokens:,}" for row in rows))
    shown.add_row("moved tokens", *(f"{row.moved_tokens:,}" for row in rows), end_section=True)
    for term in record.terms_us:
        shown.add_row(term.replace("_", " "), *(_ms(row.terms[term]) for row in rows), end_section=term == "tpot")
    shown.add_section()
    shown.add_row("total", *(_ms(row.total) for row in rows))
    left_out = len(record.rows) - len(rows) + record.others_left_out
    if left_out:
        shown.caption = f"{left_out} more plans were compared; --json has those that the record kept"
    return shown


def reason_sentence(record: DecisionRecord) -> str:
    """One sentence: what was chosen among how many, by which policy, and why."""
    winner = record.winner
    expected = (
        "" if record.predicted_ttft_s is None else f", first token expected after {_ms(record.predicted_ttft_s)} ms"
    )
    reason = record.schedule_reason.rstrip(".") or f"it has the smallest total of policy {record.policy}"
    among = "" if record.pairs_considered is None else f" among {record.pairs_considered} pairs"
    loads = [f"{tokens:,} tokens of KV from {tier}" for tier, tokens in record.predicted_loaded_tokens.items()]
    loading = f", loading {' and '.join(loads)}" if loads else ""
    return (
        f"{record.request_id} went to {winner.name} ({winner.action}{loading}), chosen by {record.policy}{among}"
        f"{expected}: {reason}."
    )


def sources(record: DecisionRecord) -> str:
    """Where what the decision knew came from, and how old it was then."""
    said = [f"{name.replace('_', ' ')} from {source} ({_age(age_s)})" for name, source, age_s in record.inputs]
    return f"Known then: {'; '.join(said)}." if said else ""


def why_not_emptiest(record: DecisionRecord) -> str:
    """The answer to "why not the emptiest GPU?", in milliseconds per term."""
    return why_not(record, EMPTIEST, "the emptiest GPU", record.policy == BY_SECONDS)


def predicted_against_observed(observation: ObservationRecord) -> str:
    """What was expected and what came, as far as both are known."""
    pairs = (
        ("TTFT", observation.predicted_ttft_s, observation.ttft_s),
        ("TPOT", observation.predicted_tpot_s, observation.tpot_s),
        ("prefill", observation.predicted_prefill_s, observation.prefill_s),
    )
    said = [_pair(name, expected, seen) for name, expected, seen in pairs if seen is not None]
    if observation.cached_tokens is not None:
        expected, seen = observation.predicted_cached_tokens, observation.cached_tokens
        cause = f", {observation.reuse.replace('_', ' ')}" if observation.reuse else ""
        said.append(f"cached tokens {_count(seen)} (expected {_count(expected)}{cause})")
    if observation.held_s:
        said.append(f"held for {_ms(observation.held_s)} ms")
    ending = observation.ending + (f" ({observation.reason})" if observation.reason else "")
    attempts = "" if observation.attempts <= 1 else f" after {observation.attempts} attempts"
    return f"ended as {ending}{attempts}" + "".join(f"; {part}" for part in said) + "."


def text(case: Case) -> list[Table | str]:
    """Everything about one request in the order to print it: per decision its sentence, table and answer."""
    shown: list[Table | str] = []
    for record in case.decisions:
        shown += [reason_sentence(record), title(record), table(record), why_not_emptiest(record)]
        if record.inputs:
            shown.append(sources(record))
    if case.observation is not None:
        told = (wait_sentence(case.observation), refusal_sentence(case.observation))
        shown += [sentence for sentence in told if sentence]
        shown.append(f"{case.request_id} {predicted_against_observed(case.observation)}")
    return shown


def to_json(case: Case) -> dict[str, Any]:
    """Everything about one request as plain data; differences are in milliseconds, named rows are resolved."""
    return {
        "request_id": case.request_id,
        "decisions": [_decision_json(record) for record in case.decisions],
        "wait": "" if case.observation is None else wait_sentence(case.observation),
        "refusal": "" if case.observation is None else refusal_sentence(case.observation),
        "observation": None if case.observation is None else msgspec.to_builtins(case.observation),
    }


def _decision_json(record: DecisionRecord) -> dict[str, Any]:
    emptiest = record.counterfactual(EMPTIEST)
    differences = [] if emptiest is None else compare(record.winner, emptiest).differences
    return {
        "reason": reason_sentence(record),
        "why_not_emptiest": why_not_emptiest(record),
        "emptiest_minus_winner_ms": {d.name: round(d.seconds * 1e3, 3) for d in differences},
        "rows": [msgspec.to_builtins(record.row(index)) for index in range(len(record.rows))],
        "record": msgspec.to_builtins(record),
    }


def _pair(name: str, expected: float | None, seen: float | None) -> str:
    said = f"{name} {_ms(seen)} ms (expected {_ms(expected)} ms"
    if expected and seen is not None:
        said += f", {(seen - expected) / expected:+.0%}"
    return said + ")"


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:,.1f}"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "never heard"
    return "current" if not seconds else f"{seconds:,.1f} s old"


def _count(tokens: int | None) -> str:
    return "–" if tokens is None else f"{tokens:,}"
