"""Why a plan was not taken: the difference between its row and the winner's, term by term, in milliseconds.

The terms of a row that add up to its expected time to the first token are the waits, fetch, compute, transfer and
first step; waits overlap, so the decode side's counts only as far as it outlasts the rest:

    ttft = wait_prefill + fetch_kv + compute_prefill + transfer_kv + max(0, decode_ready - those four) + first_step
    total = ttft_cost + tpot_cost + prefill_price + decode_price + link_price + pressure

`ttft_cost` weighs ttft by the request's class and counts what is beyond its objective in addition. That surplus is a
difference of its own ("objective"), so the differences add up to the difference in total. A term that a row lacks while
its ttft is known does not apply to it: a local plan moves nothing.
"""

from dataclasses import dataclass

from vicinal.observe.lines import DecisionRecord, Row

NEGLIGIBLE_S = 0.0005
"""Differences below half a millisecond are not worth a word; together they can be more, and then are said."""

_CHAIN = ("wait_prefill", "fetch_kv", "compute_prefill", "transfer_kv")
_PRICES = ("prefill_price", "decode_price", "link_price", "pressure")

_SAVES = {
    "wait_prefill": "waiting",
    "fetch_kv": "fetching KV",
    "compute_prefill": "prefill compute",
    "transfer_kv": "moving KV to the decoder",
    "decode_wait": "waiting for the decoder",
    "first_step": "first decode step",
    "objective": "what the weights and objectives of its class add",
    "tpot_cost": "decoding time",
    "prefill_price": "prefill time that others queue for",
    "decode_price": "decode time that others share",
    "link_price": "link time that others need",
    "pressure": "what endpoints under pressure cost more",
    "rest": "smaller terms",
}
_COSTS = {
    "wait_prefill": "wait longer for prefill",
    "fetch_kv": "fetch more KV",
    "compute_prefill": "compute more prefill",
    "transfer_kv": "move more KV to the decoder",
    "decode_wait": "wait longer for the decoder",
    "first_step": "have a longer first decode step",
    "objective": "count more by the weights and objectives of its class",
    "tpot_cost": "decode more slowly",
    "prefill_price": "take prefill time that others queue for",
    "decode_price": "slow down others' decoding",
    "link_price": "take link time that others need",
    "pressure": "use an endpoint under pressure",
    "rest": "lose on smaller terms",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more (or less, negative) the other plan has of a term, in seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """`other` against `winner`: differences sorted by size; empty when one of the rows has no terms."""

    winner: Row
    other: Row
    differences: tuple[Difference, ...]

    @property
    def seconds(self) -> float:
        return sum(difference.seconds for difference in self.differences)


def compare(winner: Row, other: Row) -> Comparison:
    """The difference per term, `other` minus `winner`."""
    ours, theirs = _parts(winner), _parts(other)
    names = [name for name in _SAVES if name in ours or name in theirs] if ours and theirs else []
    found = [Difference(name, theirs.get(name, 0.0) - ours.get(name, 0.0)) for name in names]
    return Comparison(winner, other, tuple(sorted(found, key=lambda d: -abs(d.seconds))))


def why_not(record: DecisionRecord, counterfactual: str, title: str, chose_by_seconds: bool) -> str:
    """Why the plan called `counterfactual` was not taken, in words.

    `chose_by_seconds` says that the policy takes the least total; otherwise its own rule decided, which is told first.
    """
    other = record.counterfactual(counterfactual)
    if other is None:
        return f"The record does not say which was {title}."
    winner = record.winner
    if other.same_plan(winner):
        return f"{winner.name} is {title}: it was chosen."
    comparison = compare(winner, other)
    if not comparison.differences:
        cost = f"The record does not have the terms of {other.name} ({title})."
    else:
        cost = _by_cost(comparison, title, chose_by_seconds)
    return cost if chose_by_seconds else f"{_by_rule(record)} {cost}"


def _by_rule(record: DecisionRecord) -> str:
    reason = record.schedule_reason.rstrip(".") or "by its own rule"
    return f"{record.policy} does not choose by seconds; it took {record.winner.name}: {reason}."


def _by_cost(comparison: Comparison, title: str, chose_by_seconds: bool) -> str:
    other, winner = comparison.other.name, comparison.winner.name
    total_s = comparison.seconds
    if abs(total_s) < NEGLIGIBLE_S:
        words = f"{other} ({title}) would cost the same as {winner}, to half a millisecond"
    elif total_s > 0:
        words = f"{other} ({title}) would cost {_ms(total_s)} more"
    else:
        words = f"{other} ({title}) would cost {_ms(-total_s)} less"
        words += ", and was not taken all the same" if chose_by_seconds else ""
    detail = _detail(comparison, total_s)
    return f"{words}: {detail}." if detail else f"{words}."


def _detail(comparison: Comparison, total_s: float) -> str:
    """What it would save and what it would cost, each sorted by size; what weighs against the sum comes first."""
    told = [d for d in comparison.differences if abs(d.seconds) >= NEGLIGIBLE_S]
    rest_s = total_s - sum(d.seconds for d in told)
    if abs(rest_s) >= NEGLIGIBLE_S:
        told.append(Difference("rest", rest_s))
    saved = _joined([f"{_ms(-d.seconds)} of {_SAVES[d.name]}" for d in told if d.seconds < 0])
    lost = _joined([f"{_cost(d, comparison)} (+{_ms(d.seconds)})" for d in told if d.seconds > 0])
    if saved and lost:
        parts = (f"save {saved}", lost) if total_s > 0 else (lost, f"save {saved}")
        return f"it would {parts[0]}, but {parts[1]}"
    return f"it would {f'save {saved}' if saved else lost}" if saved or lost else ""


def _cost(difference: Difference, comparison: Comparison) -> str:
    recomputed = comparison.winner.cached_tokens - comparison.other.cached_tokens
    if difference.name == "compute_prefill" and recomputed > 0:
        return f"recompute {recomputed:,} cached tokens"
    moved = comparison.other.moved_tokens - comparison.winner.moved_tokens
    if difference.name == "transfer_kv" and moved > 0:
        return f"move {moved:,} more tokens' KV"
    return _COSTS[difference.name]


def _parts(row: Row) -> dict[str, float]:
    """What adds up to a row's cost in seconds; nothing when its ttft is Unknown."""
    terms = {name: value for name, value in row.terms.items() if value is not None}
    if "ttft" not in terms:
        return {}
    parts = {name: terms[name] for name in _CHAIN if name in terms}
    chain_s = sum(parts.values())
    if "decode_ready" in terms:
        parts["decode_wait"] = max(0.0, terms["decode_ready"] - chain_s)
    if "first_step" in terms:
        parts["first_step"] = terms["first_step"]
    if "ttft_cost" in terms:
        parts["objective"] = terms["ttft_cost"] - terms["ttft"]
    parts |= {name: terms[name] for name in ("tpot_cost", *_PRICES) if name in terms}
    return parts


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + f" and {parts[-1]}" if parts else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"
