"""The decision table: every pair of a prefill and a decode endpoint as a row, priced in seconds, without a loop.

For prefill endpoint i and decode endpoint j

    ttft(i, j) = max(a[i] + net(i, j), ready[j]) + step[j]          a = wait + fetch + compute
    net(i, j)  = latency + bytes[j] · max over links((1 + flows) / capacity) · factor of that level
    cost(i, j) = F(ttft) + tpot_cost[j] + prefill_price[i] + decode_price[j] + link_price(i, j)

with F(t) = w (t + kappa max(0, t - objective)), which never falls as t grows. One more row, `local`, stands for i = j:
the decode endpoint prefills itself, nothing moves, and the first token comes with the prefill. Endpoints that may not
serve have an infinite entry, so their rows never win.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.view import View
from vicinal.domain.decision import TERMS
from vicinal.domain.request import ServiceClass
from vicinal.topology.pathtable import PathTable

Floats = NDArray[np.float64]
GRID_CELLS_MAX = 4096
"""Up to this many pairs, pricing them all costs less than choosing which to price."""

Where = int | slice | NDArray[np.intp]
"""What selects rows or columns: a position, all, or an array of positions (broadcast against the other)."""


@dataclass(frozen=True, slots=True)
class PrefillSide:
    """Per prefill endpoint (P,), in seconds; `slots` says which endpoints. `blocked` rows may not be used."""

    slots: NDArray[np.intp]
    blocked: NDArray[np.bool_]
    cached_tokens: Floats
    wait_s: Floats
    compute_s: Floats
    price_s: Floats
    outstanding_tokens: Floats


@dataclass(frozen=True, slots=True)
class DecodeSide:
    """Per decode endpoint (D,). `local_*` price the plan where it prefills too; `local_blocked` rules that out."""

    slots: NDArray[np.intp]
    blocked: NDArray[np.bool_]
    held_tokens: Floats
    moved_bytes: Floats
    ready_s: Floats
    step_s: Floats
    tpot_s: Floats
    tpot_cost_s: Floats
    price_s: Floats
    outstanding_tokens: Floats
    local_blocked: NDArray[np.bool_]
    local_cached_tokens: Floats
    local_wait_s: Floats
    local_compute_s: Floats
    local_price_s: Floats


@dataclass(frozen=True, slots=True)
class NetworkSide:
    """Per link, (2, links + 1) in seconds per byte: with this transfer joined, and what it adds to those there."""

    paths: PathTable
    link_s_per_byte: Floats
    factor_by_level: Floats

    @property
    def slowness_s_per_byte(self) -> Floats:
        return np.asarray(self.link_s_per_byte[0])


@dataclass(frozen=True, slots=True)
class Priced:
    """What depends on the pair, for some rows of the table. `total_s` is infinite where one of them may not serve."""

    transfer_s: Floats
    link_price_s: Floats
    ttft_s: Floats
    total_s: Floats


class Table:
    """Rows are addressed as (i, j): positions in `prefill.slots` and `decode.slots`; i == `local_row` means local."""

    def __init__(
        self,
        prefill: PrefillSide,
        decode: DecodeSide,
        network: NetworkSide,
        service: ServiceClass,
        ttft_objective_s: float,
        view: View,
    ) -> None:
        self.prefill = prefill
        self.decode = decode
        self.network = network
        self.service = service
        self.view = view
        self.ttft_objective_s = ttft_objective_s
        self.local_row = len(prefill.slots)
        infinite_p = np.where(prefill.blocked, np.inf, 0.0)
        infinite_d = np.where(decode.blocked, np.inf, 0.0)
        self.start_s = prefill.wait_s + prefill.compute_s
        self.of_prefill_s = prefill.price_s + infinite_p
        self.of_decode_s = decode.tpot_cost_s + decode.price_s + infinite_d

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.prefill.slots), len(self.decode.slots)

    def ttft_cost_s(self, ttft_s: Floats) -> Floats:
        """F: seconds that a TTFT costs, missing its objective included."""
        service = self.service
        return service.ttft_weight * (ttft_s + service.miss_factor * np.maximum(ttft_s - self.ttft_objective_s, 0.0))

    def price(self, i: Where, j: Where) -> Priced:
        """Price the rows (i, j): the transfer of what j lacks, what it adds to others, and what follows."""
        network, decode = self.network, self.decode
        paths = network.paths
        slowness, crowding = network.link_s_per_byte[:, paths.links[:, i, j]].max(axis=1)
        moved_bytes = decode.moved_bytes[j]
        transfer_s = paths.latency_s[i, j] + moved_bytes * (slowness * network.factor_by_level[paths.level[i, j]])
        link_price_s = (self.service.ttft_weight * moved_bytes) * crowding
        ttft_s = np.maximum(self.start_s[i] + transfer_s, decode.ready_s[j]) + decode.step_s[j]
        total_s = self.ttft_cost_s(ttft_s) + link_price_s + self.of_prefill_s[i] + self.of_decode_s[j]
        return Priced(transfer_s, link_price_s, ttft_s, total_s)

    @cached_property
    def grid(self) -> Priced:
        """All pairs priced, (P, D): for tables small enough that this is cheaper than choosing what to price."""
        return self.price(slice(None), slice(None))

    @cached_property
    def small(self) -> bool:
        rows, columns = self.shape
        return rows * columns <= GRID_CELLS_MAX

    def totals(self, i: Where, j: Where) -> Floats:
        """Cost of the rows (i, j)."""
        return self.grid.total_s[i, j] if self.small else self.price(i, j).total_s

    @cached_property
    def local_s(self) -> Floats:
        """Cost of the local plan on each decode endpoint (D,)."""
        decode = self.decode
        cost: Floats = self.ttft_cost_s(decode.local_wait_s + decode.local_compute_s)
        cost = cost + decode.tpot_cost_s + decode.price_s + decode.local_price_s
        return np.where(decode.local_blocked, np.inf, cost)

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """(P, D): both ends may serve, and they are not the same endpoint."""
        ends: NDArray[np.bool_] = ~self.prefill.blocked[:, None] & ~self.decode.blocked
        return ends & self.network.paths.distinct

    @cached_property
    def serving(self) -> NDArray[np.bool_]:
        """(P,): prefill endpoints with at least one decode endpoint to go with."""
        if np.count_nonzero(~self.decode.blocked) > 1:
            return ~self.prefill.blocked
        serving: NDArray[np.bool_] = np.any(self.usable, axis=1)
        return serving

    def only(self, rows: NDArray[np.bool_]) -> "Table":
        """The same table with just these prefill endpoints, and no local plans."""
        prefill = replace(self.prefill, blocked=self.prefill.blocked | ~rows)
        decode = replace(self.decode, local_blocked=np.ones_like(self.decode.local_blocked))
        return Table(prefill, decode, self.network, self.service, self.ttft_objective_s, self.view)

    def total(self, i: int, j: int) -> float:
        return float(self.local_s[j]) if i == self.local_row else float(self.totals(i, j))

    def terms(self, i: NDArray[np.intp], j: NDArray[np.intp]) -> list[tuple[float | None, ...]]:
        """The columns of some rows, in the order of `TERMS`; None for a term that does not apply to a row."""
        local = i == self.local_row
        if not local.any():
            return _rows(self._pair_terms(i, j), len(i))
        pairs = iter(_rows(self._pair_terms(i[~local], j[~local]), int((~local).sum())))
        locals_ = iter(_rows(self._local_terms(j[local]), int(local.sum())))
        return [next(locals_) if is_local else next(pairs) for is_local in local.tolist()]

    def _pair_terms(self, i: NDArray[np.intp], j: NDArray[np.intp]) -> dict[str, Floats]:
        prefill, decode = self.prefill, self.decode
        priced = self.price(i, j)
        return {
            "wait_prefill": prefill.wait_s[i],
            "compute_prefill": prefill.compute_s[i],
            "transfer_kv": priced.transfer_s,
            "decode_ready": decode.ready_s[j],
            "first_step": decode.step_s[j],
            "ttft": priced.ttft_s,
            "tpot": decode.tpot_s[j],
            "ttft_cost": self.ttft_cost_s(priced.ttft_s),
            "tpot_cost": decode.tpot_cost_s[j],
            "prefill_price": prefill.price_s[i],
            "decode_price": decode.price_s[j],
            "link_price": priced.link_price_s,
        }

    def _local_terms(self, j: NDArray[np.intp]) -> dict[str, Floats]:
        decode = self.decode
        ttft_s = decode.local_wait_s[j] + decode.local_compute_s[j]
        return {
            "wait_prefill": decode.local_wait_s[j],
            "compute_prefill": decode.local_compute_s[j],
            "ttft": ttft_s,
            "tpot": decode.tpot_s[j],
            "ttft_cost": self.ttft_cost_s(ttft_s),
            "tpot_cost": decode.tpot_cost_s[j],
            "prefill_price": decode.local_price_s[j],
            "decode_price": decode.price_s[j],
        }


def _rows(columns: dict[str, Floats], count: int) -> list[tuple[float | None, ...]]:
    """Columns by name, turned into rows in the order of `TERMS`."""
    nothing = [None] * count
    return list(zip(*(columns[name].tolist() if name in columns else nothing for name in TERMS), strict=True))
