"""What a decision table needs of the fleet alone: who is in which pool, the paths between the pools, and the fits.

It is made when the fleet changes, and when it changes who can be a pair: not one endpoint with itself, not two that
hand off in different ways (domain/endpoint.py), not two whose hand-off failed a while ago. Who hands nothing off is in
no pair: a fleet of such endpoints has no prefill pool, no paths, and a table of local plans only.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from msgspec.structs import replace as structs_replace
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.cost.below import LoadRates, load_rates
from vicinal.cost.sides import Floats, NetworkSide, Positions, PrefillSide
from vicinal.domain.endpoint import HandOff
from vicinal.enginemodel.fit import Fit, stack
from vicinal.topology.graph import Level, Topology
from vicinal.topology.pathtable import PathTable, path_table

Value = TypeVar("Value", np.float64, np.bool_)


@dataclass(frozen=True, slots=True)
class Pools:
    """Nobody who left is in any of it.

    `prefill_slots` may be the prefill of a pair; `queueing_slots` are all that prefill by their role, for pairs or for
    themselves: their queues make the price. `decode_slots` may decode, in a pair or by themselves. `fit` is of all
    slots, `decode_fit` of the decode pool; the figures from `block_tokens` on are the decode pool's too,
    `never` its zeros.
    `load_rates` are of all slots. `no_prefill` and `no_network` stand in a table that has no pairs.
    """

    prefill_slots: NDArray[np.intp]
    queueing_slots: NDArray[np.intp]
    decode_slots: NDArray[np.intp]
    fit: Fit
    decode_fit: Fit
    paths: PathTable
    least_latency_s: Floats
    same: Positions
    same_max: int
    nominal_s_per_byte_by_level: Floats
    capacity_s_per_byte: Floats
    everybody_decodes: bool
    block_tokens: Floats
    never: Floats
    kv_bytes_per_token: Floats
    also_prefills: Floats
    distinct_fits: tuple[Fit, ...]
    load_rates: LoadRates
    no_prefill: PrefillSide
    no_network: NetworkSide

    def of_decode(self, values: NDArray[Value]) -> NDArray[Value]:
        """The decode pool's part of an array over all slots; the array itself where that is all of it."""
        return values if self.everybody_decodes else values.take(self.decode_slots)


Ends = Callable[[Fleet], tuple[NDArray[np.bool_], NDArray[np.bool_]]]
"""Of a fleet, per slot: who may be the prefill of a pair, and who may decode."""


def by_role(fleet: Fleet) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return fleet.prefills & fleet.hands_off, fleet.decodes


def whoever_makes_copies(fleet: Fleet) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return fleet.makes_copies, fleet.makes_copies


def pools(fleet: Fleet, topology: Topology, profile: Callable[[str], Fit], ends: Ends = by_role) -> Pools:
    """`profile` gives the fit of a named profile."""
    may_prefill, may_decode = ends(fleet)
    queueing_slots = np.flatnonzero(fleet.prefills & fleet.active)
    prefill_slots = np.flatnonzero(may_prefill & fleet.active)
    decode_slots = np.flatnonzero(may_decode & fleet.active)
    fits = [profile(endpoint.profile) for endpoint in fleet.endpoints]
    paths = path_table(topology, prefill_slots.tolist(), decode_slots.tolist())
    if fleet.hand_offs:
        kinds = np.array([list(HandOff).index(endpoint.hand_off) for endpoint in fleet.endpoints])
        paths = _only(paths, kinds[prefill_slots][:, None] == kinds[decode_slots])
    least_latency_s = paths.latency_s.min(axis=0, initial=np.inf)
    same, same_max = _gaps(paths)
    capacity_s_per_byte = np.append(1.0 / topology.bytes_per_s, 0.0)
    nominal = _nominal_s_per_byte_by_level(paths, capacity_s_per_byte)
    nobody = np.zeros(0)
    return Pools(
        prefill_slots=prefill_slots,
        queueing_slots=queueing_slots,
        decode_slots=decode_slots,
        fit=stack(fits),
        decode_fit=stack([fits[slot] for slot in decode_slots]),
        paths=paths,
        least_latency_s=least_latency_s,
        same=same,
        same_max=same_max,
        nominal_s_per_byte_by_level=nominal,
        capacity_s_per_byte=capacity_s_per_byte,
        everybody_decodes=len(decode_slots) == len(fleet),
        never=np.zeros(len(decode_slots)),
        block_tokens=fleet.block_tokens[decode_slots],
        kv_bytes_per_token=fleet.kv_bytes_per_token[decode_slots],
        also_prefills=fleet.prefills[decode_slots].astype(np.float64),
        distinct_fits=tuple({fits[slot] for slot in queueing_slots}),
        load_rates=load_rates(fleet.endpoints),
        no_prefill=PrefillSide(
            slots=np.zeros(0, dtype=np.intp),
            blocked=np.zeros(0, dtype=bool),
            cached_tokens=nobody,
            wait_s=nobody,
            compute_s=nobody,
            price_s=nobody,
            outstanding_tokens=nobody,
        ),
        no_network=NetworkSide(
            paths=paths,
            link_s_per_byte=np.stack((capacity_s_per_byte, np.zeros_like(capacity_s_per_byte))),
            factor_by_level=np.ones(len(Level)),
            nominal_s_per_byte_by_level=nominal,
            least_latency_s=least_latency_s,
            same=same,
            same_max=same_max,
        ),
    )


def without(pools: Pools, pairs: Collection[tuple[int, int]]) -> Pools:
    """The same, but these pairs of slots cannot be, as long as that leaves any pair at all."""
    paths = pools.paths
    allowed = np.ones_like(paths.distinct)
    for prefill, decode in pairs:
        allowed &= (pools.prefill_slots[:, None] != prefill) | (pools.decode_slots != decode)
    if not (allowed & paths.distinct).any():
        return pools
    paths = _only(paths, allowed)
    same, same_max = _gaps(paths)
    network = structs_replace(pools.no_network, paths=paths, same=same, same_max=same_max)
    return replace(pools, paths=paths, same=same, same_max=same_max, no_network=network)


def _only(paths: PathTable, allowed: NDArray[np.bool_]) -> PathTable:
    """As for one endpoint with itself: no other pair has an infinite latency."""
    return replace(paths, distinct=paths.distinct & allowed, latency_s=np.where(allowed, paths.latency_s, np.inf))


def _gaps(paths: PathTable) -> tuple[Positions, int]:
    """The pairs that cannot be, and how many of them a row has at most."""
    return positions(~paths.distinct), int(np.count_nonzero(~paths.distinct, axis=1).max(initial=0))


def _nominal_s_per_byte_by_level(paths: PathTable, capacity_s_per_byte: Floats) -> Floats:
    """Per level, the slowest path of it when every link is shared by all that can use it at once: as many as it has
    sources, and targets, behind it. 0 where no path has that level."""
    links = paths.links
    _, sources, targets = links.shape
    sending = np.zeros((len(capacity_s_per_byte), sources), dtype=bool)
    sending[links, np.arange(sources)[:, None]] = True
    receiving = np.zeros((len(capacity_s_per_byte), targets), dtype=bool)
    receiving[links, np.arange(targets)] = True
    sharers = np.minimum(np.count_nonzero(sending, axis=1), np.count_nonzero(receiving, axis=1))
    slowest = (capacity_s_per_byte * sharers).take(links).max(axis=0, initial=0.0)
    by_level = np.zeros(len(Level))
    np.maximum.at(by_level, paths.level.ravel(), slowest.ravel())
    return by_level


def positions(mask: NDArray[np.bool_]) -> Positions:
    rows, columns = mask.nonzero()
    return rows, columns
