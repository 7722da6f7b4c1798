"""The rows that people ask about: why not the emptiest GPU, the nearest one, the one that has the cache?"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vicinal.cost.pairs import Pair, cheapest
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream


def counterfactuals(table: Table, ranked: Sequence[Pair], chosen_j: int, chance: Stream) -> list[tuple[str, Pair]]:
    """Named rows, each the cheapest of its kind; a kind that nobody can serve is left out.

    emptiest_gpu: in each pool the endpoint with the fewest outstanding predicted tokens.
    nearest: the prefill endpoint at the tightest level to the chosen decode endpoint.
    best_cached: the longest cached prefix. best_hit, best_recompute: with some of the prompt cached, and with none.
    local: the decode endpoint prefills itself.
    """
    found: list[tuple[str, Pair]] = []
    usable, serving = table.usable, table.serving
    if serving.any():
        found.append(("emptiest_gpu", _emptiest(table, serving)))
        if usable[:, chosen_j].any():
            found.append(("nearest", _nearest(table, usable, chosen_j)))
        cached = np.where(serving, table.prefill.cached_tokens, -1.0)
        if cached.max() > 0:
            found.append(("best_cached", _cheapest_in_rows(table, np.flatnonzero(cached == cached.max())[:1])))
        found += _by_action(table, ranked, serving, chance)
    if not table.decode.local_blocked.all():
        totals = table.local_s
        j = int(totals.argmin())
        found.append(("local", Pair(float(totals[j]), table.local_row, j)))
    return found


def _emptiest(table: Table, serving: NDArray[np.bool_]) -> Pair:
    i = _least(table.prefill.outstanding_tokens, serving)
    j = _least(table.decode.outstanding_tokens, table.usable[i])
    return Pair(table.total(i, j), i, j)


def _nearest(table: Table, usable: NDArray[np.bool_], j: int) -> Pair:
    level = np.where(usable[:, j], table.network.paths.level[:, j], np.iinfo(np.int8).max)
    totals = np.where(level == level.min(), table.totals(slice(None), j), np.inf)
    i = int(totals.argmin())
    return Pair(float(totals[i]), i, j)


def _cheapest_in_rows(table: Table, rows: NDArray[np.intp]) -> Pair:
    totals = table.totals(rows[:, None], np.arange(table.shape[1]))
    row, j = np.unravel_index(int(totals.argmin()), totals.shape)
    return Pair(float(totals[row, j]), int(rows[row]), int(j))


def _by_action(
    table: Table, ranked: Sequence[Pair], serving: NDArray[np.bool_], chance: Stream
) -> list[tuple[str, Pair]]:
    found = []
    hits = table.prefill.cached_tokens > 0
    for name, rows in (("best_hit", serving & hits), ("best_recompute", serving & ~hits)):
        if not rows.any():
            continue
        among = next((pair for pair in ranked if pair.i != table.local_row and rows[pair.i]), None)
        found.append((name, among or cheapest(table.only(rows), 1, chance)[0]))
    return found


def _least(key: NDArray[np.float64], allowed: NDArray[np.bool_]) -> int:
    return int(np.where(allowed, key, np.inf).argmin())
