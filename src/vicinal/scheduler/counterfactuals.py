"""The rows that people ask about: why not the emptiest GPU, the nearest one, the one that has the cache?"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vicinal.cost.pairs import Pair, cheapest
from vicinal.cost.table import Table
from vicinal.domain.chance import NO_CHANCE

Place = tuple[int, int]
"""Which row of the table: (i, j)."""


def counterfactuals(table: Table, ranked: Sequence[Pair], chosen_j: int) -> list[tuple[str, Place]]:
    """Named rows, each the cheapest of its kind; a kind that nobody can serve is left out.

    Where pairs can serve they are of pairs, but for the last:
    emptiest_gpu: in each pool the endpoint with the fewest outstanding predicted tokens.
    nearest: the prefill endpoint at the tightest level to the chosen decode endpoint.
    best_cached: the longest cached prefix. best_hit, best_recompute: with some of the prompt cached, and with none.
    local: the decode endpoint prefills itself.
    Where only local plans can serve they are of these, and nothing is near or far.
    """
    found: list[tuple[str, Place]] = []
    serving = table.serving
    if np.count_nonzero(serving):
        found += _among_pairs(table, ranked, serving, chosen_j)
    usable = table.usable_local
    if np.count_nonzero(usable):
        if not found:
            found += _among_locals(table, usable)
        found.append(("local", (table.local_row, int(table.local_s.argmin()))))
    return found


def _among_pairs(
    table: Table, ranked: Sequence[Pair], serving: NDArray[np.bool_], chosen_j: int
) -> list[tuple[str, Place]]:
    cached = table.prefill.cached_tokens
    found = [("emptiest_gpu", _emptiest(table, serving))]
    near = _nearest(table, chosen_j)
    if near is not None:
        found.append(("nearest", near))
    best = int(np.where(serving, cached, -1.0).argmax())
    if cached[best] > 0:
        found.append(("best_cached", (best, int(table.row(best).argmin()))))
    return found + _by_action(table, ranked, serving, cached > 0)


def _among_locals(table: Table, usable: NDArray[np.bool_]) -> list[tuple[str, Place]]:
    row, cached = table.local_row, table.decode.local_cached_tokens
    found = [("emptiest_gpu", (row, _least(table.local_outstanding_tokens, usable)))]
    best = _least(-cached, usable)
    if cached[best] > 0:
        found.append(("best_cached", (row, best)))
    for name, columns in (("best_hit", usable & (cached > 0)), ("best_recompute", usable & (cached == 0))):
        if np.count_nonzero(columns):
            found.append((name, (row, _least(table.local_s, columns))))
    return found


def _emptiest(table: Table, serving: NDArray[np.bool_]) -> Place:
    i = _least(table.prefill.outstanding_tokens, serving)
    return i, _least(table.decode.outstanding_tokens, table.usable_from(i))


def _nearest(table: Table, j: int) -> Place | None:
    if table.decode.blocked[j]:
        return None
    rows = table.usable_to(j).nonzero()[0]
    if not len(rows):
        return None
    level = table.network.paths.level[rows, j]
    rows = rows[level == level[level.argmin()]]
    return int(rows[table.totals(rows, j).argmin()]), j


def _by_action(
    table: Table, ranked: Sequence[Pair], serving: NDArray[np.bool_], hits: NDArray[np.bool_]
) -> list[tuple[str, Place]]:
    found = []
    for name, rows in (("best_hit", serving & hits), ("best_recompute", serving & ~hits)):
        if np.count_nonzero(rows):
            among = next((pair for pair in ranked if pair.i != table.local_row and rows[pair.i]), None)
            best = among or cheapest(table, 1, NO_CHANCE, rows)[0]
            found.append((name, (best.i, best.j)))
    return found


def _least(key: NDArray[np.float64], allowed: NDArray[np.bool_]) -> int:
    return int(np.where(allowed, key, np.inf).argmin())
