"""The cheapest pairs, exactly, without pricing all of them.

Cost is F(max(a[i] + net, ready[j]) + step[j]) + x[i] + y[j] + (something not negative), F grows at least with slope w.
So a pair costs at least the sum of a number per row and a number per column:

    ahead[i]  = x[i] + w max(0, a[i] - a_min - hidden)
    behind[j] = y[j] + F(max(a_min + net_j, ready[j]) + step[j])

where net_j is what every path to j costs at least: the shortest latency, and the links that all of them load; and
hidden is the longest time for which waiting until some j is ready hides a later start. The row with the best bound is
priced whole, then, of the best column, what is still in question; their k-th cheapest entry is a ceiling, and a pair
whose bound is not below it cannot be better. The few that remain are priced exactly while the ceiling falls. Shortcuts
such as "the best prefill of each leaf" are wrong once interfaces carry load.
"""

import sys
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cost.sides import Floats
from vicinal.cost.table import Table
from vicinal.domain.chance import NO_CHANCE, Stream

PAIRS_FIRST = 512
PAIRS_GROWTH = 8
"""The first pairs bring the ceiling down; after that, many at once cost less than many times a few."""
SORTED_WHOLE_MAX = 256
"""Up to this many totals, sorting them all costs less than picking the first of them."""
_FINITE_MAX = sys.float_info.max


class Pair(Struct, frozen=True):
    """A row of the table and its cost. `i == table.local_row` is the local plan on decode endpoint j."""

    total_s: float
    i: int
    j: int


def cheapest(table: Table, count: int, chance: Stream, rows: NDArray[np.bool_] | None = None) -> list[Pair]:
    """The `count` cheapest rows, local ones included, cheapest first; fewer when fewer can serve.

    With `rows` only pairs of those prefill endpoints count, and no local plans. Which of several cheapest comes first
    is drawn from `chance`.
    """
    if table.small:
        return _of_all(table, count, chance, rows)
    found = _Found(table.shape[1], count)
    if rows is None:
        found.add(table.local_s, table.local_row, np.arange(table.shape[1]))
    _price_few(table, found, chance, rows)
    return found.ranked(chance)


class Ranking:
    """The `count` cheapest rows of one table in order, found when somebody first asks."""

    def __init__(self, table: Table, count: int) -> None:
        self._table = table
        self._count = count
        self._pairs: list[Pair] | None = None

    def drawn(self, chance: Stream) -> Sequence[Pair]:
        """Which of several cheapest comes first is drawn from `chance`, once."""
        if self._pairs is None:
            self._pairs = cheapest(self._table, self._count, chance)
        return self._pairs

    def listed(self) -> Sequence[Pair]:
        """Likewise, to look at and not to decide: where nothing was drawn yet, nothing will be."""
        return self.drawn(NO_CHANCE)


class _Found:
    """The cheapest entries seen so far, and the ceiling that a better one must not exceed. Equals are all kept.

    An entry's place is one number, i · columns + j.
    """

    def __init__(self, columns: int, count: int) -> None:
        self._columns = columns
        self._count = count
        self._totals: Floats = np.zeros(0)
        self._places: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self.ceiling = np.inf

    def add(self, totals: Floats, i: int | NDArray[np.intp], j: int | NDArray[np.intp]) -> None:
        """Entries must be new: no pair is added twice. `totals` is (n,); one of `i` and `j` may be the same for all."""
        self.add_places(totals, np.asarray(i * self._columns + j))

    def add_places(self, totals: Floats, places: NDArray[np.intp]) -> None:
        if self.ceiling < np.inf:
            below = (totals <= self.ceiling).nonzero()[0]
            totals, places = totals[below], places[below]
        if len(self._totals):
            totals, places = np.concatenate((self._totals, totals)), np.concatenate((self._places, places))
        self._totals, self._places = totals, places
        if len(totals) >= self._count:
            self.ceiling = float(np.partition(totals, self._count - 1)[self._count - 1])

    def ranked(self, chance: Stream) -> list[Pair]:
        """In order; which of the first equals is first is drawn."""
        kept = (self._totals <= min(self.ceiling, _FINITE_MAX)).nonzero()[0]
        entries = sorted(zip(self._totals[kept].tolist(), self._places[kept].tolist(), strict=True))
        if not entries:
            return []
        equals = bisect_right(entries, entries[0][0], key=itemgetter(0))
        if equals > 1:
            entries.insert(0, entries.pop(int(chance.random() * equals)))
        return [Pair(total_s, *divmod(place, self._columns)) for total_s, place in entries[: self._count]]


def _of_all(table: Table, count: int, chance: Stream, rows: NDArray[np.bool_] | None) -> list[Pair]:
    """Of a table that is priced whole. Places are numbered row by row; the local row is the last."""
    columns = table.shape[1]
    if not table.local_row:  # no pairs
        totals = table.local_s if rows is None else np.zeros(0)
    elif rows is None:
        totals = np.concatenate((table.grid.total_s.ravel(), table.local_s))
    else:
        totals = np.where(rows[:, None], table.grid.total_s, np.inf).ravel()
    if len(totals) > SORTED_WHOLE_MAX:
        order = totals.argpartition(count)[: count + 1]
        order = order[totals[order].argsort(kind="stable")]
    else:
        order = totals.argsort(kind="stable")[: count + 1]
    places, values = order.tolist(), totals[order].tolist()
    if len(values) > 1 and values[0] == values[1] < np.inf:
        equals = (totals == values[0]).nonzero()[0]
        first = int(equals[int(chance.random() * len(equals))])
        places = [first, *(place for place in places if place != first)]
    return [
        Pair(total, *divmod(place, columns))
        for total, place in zip(values[:count], places[:count], strict=True)
        if total < np.inf
    ]


def _price_few(table: Table, found: _Found, chance: Stream, rows: NDArray[np.bool_] | None) -> None:
    ahead, behind = (floor.copy() for floor in table.floors)
    if rows is not None:
        ahead[~rows] = np.inf
    row, column = _least(ahead, chance), _least(behind, chance)
    behind_s = float(behind[column])
    if not np.isfinite(ahead[row] + behind_s):
        return
    found.add(table.row(row), row, np.arange(table.shape[1]))
    ahead[row] = np.inf
    few = (ahead + behind_s < found.ceiling).nonzero()[0]
    if not len(few):
        return
    found.add(table.totals(few, column), few, column)
    behind[column] = np.inf
    order = behind.argsort()
    below = behind[order]
    few = few[ahead[few].argsort(kind="stable")]
    pairs_at_once = PAIRS_FIRST
    while len(few):
        # Columns stand in order of their bound: those that may go with a row are the first so many, fewer row by row.
        counts = below.searchsorted(found.ceiling - ahead[few])
        ends = counts.cumsum()
        if not ends[-1]:
            return
        rows_taken = max(1, int(ends.searchsorted(pairs_at_once, side="right")))
        counts, ends = counts[:rows_taken], ends[:rows_taken]
        i = few[:rows_taken].repeat(counts)
        j = order[np.arange(ends[-1]) - (ends - counts).repeat(counts)]
        found.add(table.totals(i, j), i, j)
        few, pairs_at_once = few[rows_taken:], pairs_at_once * PAIRS_GROWTH


def bounds(table: Table) -> tuple[Floats, Floats]:
    """What every pair of a row, and of a column, costs at least. Infinite where the endpoint may not serve."""
    ahead, behind = table.floors
    return ahead + behind.min(), behind + ahead.min()


def _least(bound: Floats, chance: Stream) -> int:
    """A position of the smallest bound, drawn among equals."""
    ties = (bound == bound[bound.argmin()]).nonzero()[0]
    return int(ties[int(chance.random() * len(ties))])
