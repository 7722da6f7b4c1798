"""The decision table: every pair of a prefill and a decode endpoint as a row, priced in seconds, without a loop.

For prefill endpoint i and decode endpoint j

    ttft(i, j) = max(a[i] + net(i, j), ready[j]) + step[j]          a = wait + fetch + compute
    net(i, j)  = latency + bytes[j] · max over links((1 + flows) / capacity) · factor of that level
    cost(i, j) = F(ttft) + tpot_cost[j] + prefill_price[i] + decode_price[j] + link_price(i, j)
               + pressure[i] + pressure[j]

with F(t) = w (t + kappa max(0, t - objective)), which never falls as t grows. One more row, `local`, stands for i = j:
the decode endpoint prefills itself, nothing moves, and the first token comes with the prefill. Endpoints that may not
serve have an infinite entry, so their rows never win.
"""

from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cluster.view import View
from vicinal.cost.sides import DecodeSide, Floats, NetworkSide, PrefillSide
from vicinal.domain.decision import TERMS
from vicinal.domain.request import ServiceClass

GRID_CELLS_MAX = 4096
"""Up to this many pairs, pricing them all costs less than choosing which to price."""

_ABSENT = tuple((name, TERMS.index(name)) for name in ("fetch_kv", "pressure"))
"""Terms that a row does not have where they are zero."""

Explained = tuple[float, tuple[float | None, ...]]
"""A row's total, and its columns in the order of `TERMS`; None for a term that does not apply to it."""

At = int | NDArray[np.intp]
"""One position, or an array of them."""

Where = int | slice | NDArray[np.intp]
"""What selects rows or columns: a position, all, or an array of positions (broadcast against the other)."""


class Priced(Struct, frozen=True):
    """What depends on the pair, for some rows of the table. `total_s` is infinite where one of them may not serve."""

    transfer_s: Floats
    link_price_s: Floats
    ttft_s: Floats
    total_s: Floats


class Table:
    """Rows are addressed as (i, j): positions in `prefill.slots` and `decode.slots`; i == `local_row` means local.

    `prefill_price` is what was posted for a second of prefill while the pool's mean wait is `pool_wait_s`. `local_s` is
    the cost of the local plan on each decode endpoint (D,). `serving` says which prefill endpoints have a decode
    endpoint to go with (P,), `small` that pricing every pair is cheap.
    """

    def __init__(
        self,
        prefill: PrefillSide,
        decode: DecodeSide,
        network: NetworkSide,
        service: ServiceClass,
        ttft_objective_s: float,
        view: View,
        prefill_price: float,
        pool_wait_s: float,
    ) -> None:
        self.prefill = prefill
        self.decode = decode
        self.network = network
        self.service = service
        self.view = view
        self.ttft_objective_s = ttft_objective_s
        self.prefill_price = prefill_price
        self.pool_wait_s = pool_wait_s
        self.local_row = len(prefill.slots)
        self.small = len(prefill.slots) * len(decode.slots) <= GRID_CELLS_MAX
        self._rows: dict[int, Floats] = {}
        self._decoding_s = _with(decode.pressure_s, decode.tpot_cost_s + decode.price_s)
        ttft_cost_s = self.ttft_cost_s(self.local_ttft_s)
        local_s = ttft_cost_s + self._decoding_s + decode.local_price_s
        self.local_s: Floats = np.where(decode.local_blocked, np.inf, local_s)
        self.serving = self._serving()

    @cached_property
    def local_ttft_s(self) -> Floats:
        """When the first token of a local plan comes, (D,)."""
        decode = self.decode
        start_s = decode.local_wait_s + decode.local_compute_s
        return start_s if decode.local_below is None else start_s + decode.local_below.fetch_s

    @cached_property
    def start_s(self) -> Floats:
        """When a transfer may begin, (P,). Like the next two only for pairs: a table without them never asks."""
        prefill = self.prefill
        start_s = prefill.wait_s + prefill.compute_s
        return start_s if prefill.below is None else start_s + prefill.below.fetch_s

    @cached_property
    def of_prefill_s(self) -> Floats:
        prefill = self.prefill
        return np.where(prefill.blocked, np.inf, _with(prefill.pressure_s, prefill.price_s))

    @cached_property
    def of_decode_s(self) -> Floats:
        return np.where(self.decode.blocked, np.inf, self._decoding_s)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.prefill.slots), len(self.decode.slots)

    def ttft_cost_s(self, ttft_s: Floats) -> Floats:
        """F: seconds that a TTFT costs, missing its objective included. As the larger of two lines, because infinity, a
        row that may not be taken, must stay infinite where a class gives no weight to one of them."""
        weight, kappa = self.service.ttft_weight, self.service.miss_factor
        if weight == 0.0:
            return np.where(np.isfinite(ttft_s), 0.0, np.inf)
        late_s = weight * (1.0 + kappa) * ttft_s - weight * kappa * self.ttft_objective_s
        return np.maximum(weight * ttft_s, late_s)

    def price(self, i: Where, j: Where) -> Priced:
        """Price the rows (i, j): the transfer of what j lacks, what it adds to others, and what follows."""
        paths = self.network.paths
        return self._priced(i, j, paths.links[:, i, j], paths.latency_s[i, j], paths.level[i, j])

    @cached_property
    def grid(self) -> Priced:
        """All pairs priced, (P, D): for tables small enough that this is cheaper than choosing what to price."""
        paths = self.network.paths
        return self._priced((slice(None), None), slice(None), paths.links, paths.latency_s, paths.level)

    def _priced(
        self,
        i: Where | tuple[slice, None],
        j: Where,
        links: NDArray[np.int32],
        latency_s: Floats,
        level: NDArray[np.int8],
    ) -> Priced:
        network, decode = self.network, self.decode
        slowness, crowding = np.maximum.reduce(network.link_s_per_byte.take(links, axis=1), axis=1)
        moved_bytes = decode.moved_bytes[j]
        transfer_s = latency_s + moved_bytes * (slowness * network.factor_by_level.take(level))
        link_price_s = moved_bytes * crowding
        ttft_s = np.maximum(self.start_s[i] + transfer_s, decode.ready_s[j]) + decode.step_s[j]
        total_s = self.ttft_cost_s(ttft_s) + link_price_s + self.of_prefill_s[i] + self.of_decode_s[j]
        return Priced(transfer_s, link_price_s, ttft_s, total_s)

    def totals(self, i: Where, j: Where) -> Floats:
        """Cost of the rows (i, j)."""
        return self.grid.total_s[i, j] if self.small else self.price(i, j).total_s

    def row(self, i: int) -> Floats:
        """Cost of all pairs of one prefill endpoint, (D,), priced once."""
        totals = self._rows.get(i)
        if totals is None:
            totals = self._rows[i] = self.totals(i, slice(None))
        return totals

    @cached_property
    def floors(self) -> tuple[Floats, Floats]:
        """ahead (P,) and behind (D,): the pair (i, j) costs at least ahead[i] + behind[j] (cost/pairs.py). Infinite
        where no prefill endpoint may serve."""
        prefill, decode, network = self.prefill, self.decode, self.network
        start_s = np.where(prefill.blocked, np.inf, self.start_s)
        start_min_s = float(start_s.min(initial=np.inf))
        if start_min_s == np.inf:
            return np.full(self.shape[0], np.inf), np.full(self.shape[1], np.inf)
        slowness = network.slowness_s_per_byte
        shared = np.maximum.reduce(slowness.take(network.paths.common_to), axis=0)
        sending = np.maximum.reduce(slowness.take(network.paths.common_from), axis=0).min()
        factor = network.factor_by_level.min()
        net_s = network.least_latency_s + decode.moved_bytes * (np.maximum(shared, sending) * factor)
        begin_s = start_min_s + net_s
        ttft_s = np.maximum(begin_s, decode.ready_s) + decode.step_s
        hidden_s = np.where(decode.blocked, 0.0, decode.ready_s - begin_s).max(initial=0.0)
        ahead_s = np.maximum(self.start_s - (start_min_s + hidden_s), 0.0)
        ahead = self.of_prefill_s + self.service.ttft_weight * ahead_s
        return ahead, self.ttft_cost_s(ttft_s) + self.of_decode_s

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """(P, D): both ends may serve, and can be a pair. For one row or column there is cheaper."""
        ends: NDArray[np.bool_] = ~self.prefill.blocked[:, None] & ~self.decode.blocked
        return ends & self.network.paths.distinct

    def usable_from(self, i: int) -> NDArray[np.bool_]:
        """Row i of `usable`, (D,), for a prefill endpoint that may serve."""
        return np.asarray(~self.decode.blocked & self.network.paths.distinct[i])

    def usable_to(self, j: int) -> NDArray[np.bool_]:
        """Column j of `usable`, (P,), for a decode endpoint that may serve."""
        return np.asarray(~self.prefill.blocked & self.network.paths.distinct[:, j])

    def _serving(self) -> NDArray[np.bool_]:
        if not self.local_row or _free(self.decode.blocked) > self.network.same_max:
            return ~self.prefill.blocked
        serving: NDArray[np.bool_] = np.any(self.usable, axis=1)
        return serving

    @property
    def rows_usable(self) -> int:
        """How many rows may be taken, local ones included: every pair of two that serve, but for pairs of one."""
        prefill, decode = self.prefill, self.decode
        rows, columns = self.network.same
        same = _free(prefill.blocked[rows] | decode.blocked[columns])
        return _free(prefill.blocked) * _free(decode.blocked) - same + _free(decode.local_blocked)

    def total(self, i: int, j: int) -> float:
        return float(self.local_s[j]) if i == self.local_row else float(self.totals(i, j))

    @cached_property
    def usable_local(self) -> NDArray[np.bool_]:
        """(D,): the decode endpoint may serve the whole request by itself."""
        return ~self.decode.local_blocked

    @cached_property
    def local_outstanding_tokens(self) -> Floats:
        """Predicted tokens of both phases that each decode endpoint has still to do, (D,)."""
        slots = self.decode.slots
        return self.view.outstanding_prefill_tokens.take(slots) + self.view.outstanding_decode_tokens.take(slots)

    def pairs_explained(self, i: NDArray[np.intp], j: NDArray[np.intp]) -> list[Explained]:
        """Some pairs: the total of each, and its terms."""
        return _rows(*self._pair_columns(i, j))

    def locals_explained(self, j: NDArray[np.intp]) -> list[Explained]:
        """Some local plans likewise."""
        return _rows(*self._local_columns(j))

    def explained(self, i: int, j: int) -> Explained:
        """One row likewise, a local plan included."""
        total_s, columns = self._local_columns(j) if i == self.local_row else self._pair_columns(i, j)
        terms = [float(columns[name]) if name in columns else None for name in TERMS]
        for _, column in _ABSENT:
            terms[column] = terms[column] or None
        return float(total_s), tuple(terms)

    def _pair_columns(self, i: At, j: At) -> tuple[Floats, dict[str, Floats]]:
        prefill, decode = self.prefill, self.decode
        if "grid" in self.__dict__:
            grid = self.grid
            priced = Priced(grid.transfer_s[i, j], grid.link_price_s[i, j], grid.ttft_s[i, j], grid.total_s[i, j])
        else:
            priced = self.price(i, j)
        ttft_s = priced.ttft_s
        some = {} if prefill.below is None else {"fetch_kv": prefill.below.fetch_s[i]}
        if decode.pressure_s is not None:
            some["pressure"] = _with(
                None if prefill.pressure_s is None else prefill.pressure_s[i], decode.pressure_s[j]
            )
        return priced.total_s, some | {
            "wait_prefill": prefill.wait_s[i],
            "compute_prefill": prefill.compute_s[i],
            "transfer_kv": priced.transfer_s,
            "decode_ready": decode.ready_s[j],
            "first_step": decode.step_s[j],
            "ttft": ttft_s,
            "tpot": decode.tpot_s[j],
            "ttft_cost": self.ttft_cost_s(ttft_s),
            "tpot_cost": decode.tpot_cost_s[j],
            "prefill_price": prefill.price_s[i],
            "decode_price": decode.price_s[j],
            "link_price": priced.link_price_s,
        }

    def _local_columns(self, j: At) -> tuple[Floats, dict[str, Floats]]:
        decode = self.decode
        ttft_s = self.local_ttft_s[j]
        some = {} if decode.local_below is None else {"fetch_kv": decode.local_below.fetch_s[j]}
        if decode.pressure_s is not None:
            some["pressure"] = decode.pressure_s[j]
        return self.local_s[j], some | {
            "wait_prefill": decode.local_wait_s[j],
            "compute_prefill": decode.local_compute_s[j],
            "ttft": ttft_s,
            "tpot": decode.tpot_s[j],
            "ttft_cost": self.ttft_cost_s(ttft_s),
            "tpot_cost": decode.tpot_cost_s[j],
            "prefill_price": decode.local_price_s[j],
            "decode_price": decode.price_s[j],
        }


def _rows(total_s: Floats, columns: dict[str, Floats]) -> list[Explained]:
    """Columns by name, turned into rows."""
    absent: list[float | None] = [None] * len(total_s)
    lists = [columns[name].tolist() if name in columns else absent for name in TERMS]
    for name, column in _ABSENT:
        if name in columns:
            lists[column] = [seconds or None for seconds in lists[column]]
    return list(zip(total_s.tolist(), zip(*lists, strict=True), strict=True))


def _with(more_s: Floats | None, seconds: Floats) -> Floats:
    return seconds if more_s is None else seconds + more_s


def _free(blocked: NDArray[np.bool_]) -> int:
    return len(blocked) - int(np.count_nonzero(blocked))
