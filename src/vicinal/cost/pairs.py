"""The cheapest pairs, exactly, without pricing all of them.

Cost is F(max(a[i] + net, ready[j]) + step[j]) + x[i] + y[j] + (something not negative), F grows at least with slope w.
Two bounds from below cost one number per row and per column:

    row[i]    = x[i] + w (a[i] - a_min) + min over j of [F(max(a_min + net_j, ready[j]) + step[j]) + y[j]]
    column[j] = y[j] + F(max(a_min + net_j, ready[j]) + step[j]) + min over i of [x[i] + w (a[i] - a_min)]

where net_j is what every path to j costs at least: the shortest latency, and the links that all of them load. The best
row and the best column are priced whole; their k-th cheapest entry is a ceiling; rows and columns whose bound is not
below it cannot hold a better pair. The few that remain are priced exactly, cheapest bound first, while the ceiling
falls. Shortcuts such as "the best prefill of each leaf" are wrong once interfaces carry load.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.cost.table import Floats, Table
from vicinal.domain.chance import Stream

ROWS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of the table and its cost. `i == table.local_row` is the local plan on decode endpoint j."""

    total_s: float
    i: int
    j: int


def cheapest(table: Table, count: int, chance: Stream) -> list[Pair]:
    """The `count` cheapest rows, local ones included, cheapest first; fewer when fewer can serve.

    Which of several cheapest comes first is drawn from `chance`.
    """
    found = _Found(count)
    rows, columns = table.shape
    found.add(table.local_s, np.full(columns, table.local_row), np.arange(columns))
    if table.small:
        i, j = np.divmod(np.arange(rows * columns), max(columns, 1))
        found.add(table.grid.total_s.ravel(), i, j)
    else:
        _price_few(table, found, chance)
    return found.sorted(chance)


class _Found:
    """The cheapest entries seen so far, and the ceiling that a better one must stay under."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._totals: Floats = np.zeros(0)
        self._i: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._j: NDArray[np.intp] = np.zeros(0, dtype=np.intp)

    @property
    def ceiling(self) -> float:
        return float(self._totals.max()) if len(self._totals) == self._count else np.inf

    def add(self, totals: Floats, i: NDArray[np.intp], j: NDArray[np.intp]) -> None:
        """Entries must be new: no pair is added twice."""
        totals = np.concatenate((self._totals, totals))
        i, j = np.concatenate((self._i, i)), np.concatenate((self._j, j))
        if len(totals) > self._count:
            keep = np.argpartition(totals, self._count - 1)[: self._count]
            totals, i, j = totals[keep], i[keep], j[keep]
        self._totals, self._i, self._j = totals, i, j

    def sorted(self, chance: Stream) -> list[Pair]:
        pairs = [
            Pair(total, i, j)
            for total, i, j in zip(self._totals.tolist(), self._i.tolist(), self._j.tolist(), strict=True)
            if total < np.inf
        ]
        pairs.sort(key=lambda pair: (pair.total_s, pair.i, pair.j))
        ties = sum(1 for pair in pairs if pair.total_s == pairs[0].total_s)
        if ties > 1:
            first = int(chance.random() * ties)
            pairs[0], pairs[first] = pairs[first], pairs[0]
        return pairs


def _price_few(table: Table, found: _Found, chance: Stream) -> None:
    rows, columns = bounds(table)
    row, column = _least(rows, chance), _least(columns, chance)
    all_rows, all_columns = np.arange(len(rows)), np.arange(len(columns))
    found.add(table.totals(row, slice(None)), np.full(len(columns), row), all_columns)
    others = np.delete(all_rows, row)
    found.add(table.totals(others, column), others, np.full(len(others), column))

    left = np.flatnonzero(columns < found.ceiling)
    left = left[left != column]
    order = others[np.argsort(rows[others], kind="stable")]
    for start in range(0, len(order), ROWS_AT_ONCE):
        few = order[start : start + ROWS_AT_ONCE]
        few = few[rows[few] < found.ceiling]
        left = left[columns[left] < found.ceiling]
        if not len(few) or not len(left):
            return
        totals = table.totals(few[:, None], left).ravel()
        found.add(totals, np.repeat(few, len(left)), np.tile(left, len(few)))


def bounds(table: Table) -> tuple[Floats, Floats]:
    """What every pair of a row, and of a column, costs at least. Infinite where the endpoint may not serve."""
    decode, network = table.decode, table.network
    start_min_s = table.start_s[~table.prefill.blocked].min(initial=np.inf)
    if not np.isfinite(start_min_s):
        return np.full(table.shape[0], np.inf), np.full(table.shape[1], np.inf)
    weight = table.service.ttft_weight
    ahead = table.of_prefill_s + weight * (table.start_s - start_min_s)

    shared = network.slowness_s_per_byte[network.paths.common_to].max(axis=0)
    sending = network.slowness_s_per_byte[network.paths.common_from].max(axis=0).min()
    factor = network.factor_by_level.min()
    net_s = network.paths.latency_s.min(axis=0) + decode.moved_bytes * np.maximum(shared, sending) * factor
    ttft_s = np.maximum(start_min_s + net_s, decode.ready_s) + decode.step_s
    behind = table.ttft_cost_s(ttft_s) + table.of_decode_s
    return ahead + behind.min(), behind + ahead.min()


def _least(bound: Floats, chance: Stream) -> int:
    """A position of the smallest bound, drawn among equals."""
    ties = np.flatnonzero(bound == bound.min())
    return int(ties[int(chance.random() * len(ties))])
