"""The table of a decision as its line has it: each plan once, counterfactuals by index, terms in whole microseconds.

Some 200 numbers per decision make this the expensive part of a line. Whole microseconds print six times faster, and
shorter, than seconds with decimals.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

from vicinal.domain.decision import TERMS, Decision, PricedPlan
from vicinal.observe.lines import US_PER_S, WireRow

# 6 significant digits are 6 decimals below 1, 5 below 10, ..., 0 from 1e5 on; below 1 a millionth is fine enough.
# Powers of ten up to 1e6 are exact, so the quotient is the double nearest to the decimal number and prints short.
_EDGES = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5)
_SCALES = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0)


def rounded(values: Sequence[float | None]) -> list[float]:
    """6 significant digits, at most 6 decimals, whole from 1e5 on. None becomes NaN, which JSON writes as null."""
    return [
        nan if value is None else round(value * 1e6) / 1e6 if -1.0 < value < 1.0 else _six_digits(value)
        for value in values
    ]


def _six_digits(value: float) -> float:
    if not isfinite(value):
        return float(value)
    scale = _SCALES[bisect_right(_EDGES, abs(value))]
    return round(value * scale) / scale


@dataclass(slots=True)
class Table:
    """Which plans a line has: the winner, others, then those that only counterfactuals name."""

    plans: list[PricedPlan]
    named: list[tuple[str, int]]
    droppable: list[int]
    left_out: int = 0

    def drop(self, rows: int) -> bool:
        """Leave out the `rows` farthest others that no counterfactual names; False when there are none."""
        gone = self.droppable[-rows:]
        if not gone:
            return False
        del self.droppable[-rows:]
        self.plans = [plan for index, plan in enumerate(self.plans) if index not in gone]
        self.named = [(name, index - sum(g < index for g in gone)) for name, index in self.named]
        self.left_out += len(gone)
        return True


def table_of(decision: Decision, counterfactuals: int) -> Table:
    """The whole table, with the first `counterfactuals` of the decision."""
    plans = [decision.chosen, *decision.others]
    others = len(plans)
    places = {_place(priced): index for index, priced in enumerate(plans)}
    named: list[tuple[str, int]] = []
    for name, priced in decision.counterfactuals[:counterfactuals]:
        index = places.setdefault(_place(priced), len(plans))
        if index < len(plans) and plans[index] is not priced and plans[index] != priced:
            index = len(plans)
        if index == len(plans):
            plans.append(priced)
        named.append((name, index))
    targets = {index for _, index in named}
    return Table(plans, named, [index for index in range(1, others) if index not in targets])


def rows_of(plans: Sequence[PricedPlan], totals: Sequence[float]) -> tuple[list[str], list[WireRow]]:
    """The names of the columns that some row knows, and the rows."""
    table = [_whole_us(priced.terms) for priced in plans]
    unknown = [column for column, cells in enumerate(zip(*table, strict=True)) if cells.count(None) == len(cells)]
    names = list(TERMS)
    for column in reversed(unknown):
        del names[column]
        for cells in table:
            del cells[column]
    rows: list[WireRow] = []
    for priced, total, cells in zip(plans, totals, table, strict=True):
        plan = priced.plan
        rows.append((plan.action, plan.cached_tokens, plan.held_tokens, plan.moved_tokens, total, cells))
    return names, rows


def _whole_us(terms: Sequence[float | None]) -> list[int | None]:
    """Terms in whole microseconds; what is not known, or not finite, is None."""
    try:
        return [None if value is None else round(value * US_PER_S) for value in terms]
    except (OverflowError, ValueError):
        return [None if value is None or not isfinite(value) else round(value * US_PER_S) for value in terms]


def _place(priced: PricedPlan) -> tuple[str, str, int, int]:
    plan = priced.plan
    return plan.prefill, plan.decode, plan.cached_tokens, plan.moved_tokens
