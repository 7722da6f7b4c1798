"""What goes into a decision table: per prefill endpoint, per decode endpoint, and per link of the network."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.topology.pathtable import PathTable

Floats = NDArray[np.float64]

Positions = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows and columns of some entries of a matrix."""


class Below(Struct, frozen=True):
    """Per endpoint: reusable tokens that lie below HBM, by the tier to read them from, and the seconds to load them."""

    host_tokens: Floats
    ssd_tokens: Floats
    fetch_s: Floats

    def take(self, slots: NDArray[np.intp]) -> "Below":
        return Below(self.host_tokens.take(slots), self.ssd_tokens.take(slots), self.fetch_s.take(slots))


class PrefillSide(Struct, frozen=True):
    """Per prefill endpoint (P,), in seconds; `slots` says which endpoints. `blocked` rows may not be used.

    `cached_tokens` are in any tier of the endpoint; `below` says which of them are not in HBM, None where none is.
    `pressure_s` is what one under pressure costs more, None while none is; likewise of decode endpoints.
    """

    slots: NDArray[np.intp]
    blocked: NDArray[np.bool_]
    cached_tokens: Floats
    wait_s: Floats
    compute_s: Floats
    price_s: Floats
    outstanding_tokens: Floats
    below: Below | None = None
    pressure_s: Floats | None = None


class DecodeSide(Struct, frozen=True):
    """Per decode endpoint (D,). `local_*` price the plan where it prefills too; `local_blocked` rules that out.

    `held_tokens` are in HBM: an engine that pulls a prompt looks nowhere else. One that computes it looks in the tiers
    below too, so `local_cached_tokens` may be more; `local_below` says what of them is there, None for nothing.
    """

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
    local_below: Below | None = None
    pressure_s: Floats | None = None


class NetworkSide(Struct, frozen=True):
    """Per link, (2, links + 1) in seconds per byte: with this transfer joined, and what it adds to those there.

    `nominal_s_per_byte_by_level` is what a transfer of each level gets when all that can use its links at once do.
    `least_latency_s` is that of the shortest path to each decode endpoint (D,). `same` lists the pairs that cannot be,
    one endpoint as a rule, as rows and columns; no row has more of them than `same_max`.
    """

    paths: PathTable
    link_s_per_byte: Floats
    factor_by_level: Floats
    nominal_s_per_byte_by_level: Floats
    least_latency_s: Floats
    same: Positions
    same_max: int = 1

    @property
    def slowness_s_per_byte(self) -> Floats:
        return np.asarray(self.link_s_per_byte[0])
