"""Fills the decision table: facts of the fleet, the view of the moment and the request go in, seconds come out.

B3 of the mission, input by input: utilisation, queue and batch through the waits and the step time; HBM through
`ready`; the network through paths and flows; KV location through cached and held tokens; model, role, health and
headroom through the masks (scheduler/filters.py); lengths, priority class and tenant through the request.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.cluster.view import View
from vicinal.cost.pathspeed import PathSpeeds
from vicinal.cost.price import PrefillPrice
from vicinal.cost.table import DecodeSide, Floats, NetworkSide, PrefillSide, Table
from vicinal.domain.request import Request
from vicinal.enginemodel.fit import Fit, stack
from vicinal.topology.graph import Topology
from vicinal.topology.pathtable import PathTable, path_table

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Masks:
    """Per slot: who may not take part as prefill, as decode, and as both at once."""

    prefill_blocked: Mask
    decode_blocked: Mask
    local_blocked: Mask


@dataclass(frozen=True, slots=True)
class _Pools:
    """What follows from the fleet alone: who is in which pool, their fits, and the paths between the pools."""

    prefill_slots: NDArray[np.intp]
    decode_slots: NDArray[np.intp]
    prefill_fit: Fit
    decode_fit: Fit
    paths: PathTable
    capacity_s_per_byte: Floats
    distinct_fits: tuple[Fit, ...]


class CostModel:
    """`profile` gives the fit of a named profile; it is asked when the fleet changes."""

    def __init__(self, profile: Callable[[str], Fit]) -> None:
        self._profile = profile
        self._pools: _Pools | None = None
        self.price = PrefillPrice()
        self.speeds = PathSpeeds()

    def rebuild(self, fleet: Fleet, topology: Topology) -> None:
        """The fleet changed: look up fits and paths anew."""
        prefill_slots = np.flatnonzero(fleet.prefills)
        decode_slots = np.flatnonzero(fleet.decodes)
        self._pools = _Pools(
            prefill_slots=prefill_slots,
            decode_slots=decode_slots,
            prefill_fit=self._stack(fleet, prefill_slots),
            decode_fit=self._stack(fleet, decode_slots),
            paths=path_table(topology, prefill_slots.tolist(), decode_slots.tolist()),
            capacity_s_per_byte=np.append(1.0 / topology.bytes_per_s, 0.0),
            distinct_fits=tuple({self._profile(e.profile) for e in fleet.endpoints if e.role.prefills}),
        )

    def _stack(self, fleet: Fleet, slots: NDArray[np.intp]) -> Fit:
        return stack([self._profile(fleet.endpoints[slot].profile) for slot in slots])

    @property
    def pools(self) -> _Pools:
        if self._pools is None:
            raise RuntimeError("CostModel.rebuild has not been called: no fleet is known")
        return self._pools

    def table(self, request: Request, view: View, cached_blocks: NDArray[np.int32], masks: Masks) -> Table:
        """Price all plans for a request that arrives now. `cached_blocks` is per slot, contiguous from the root."""
        pools = self.pools
        price = self.price.seconds_per_second
        slots = pools.prefill_slots
        cached = reusable_tokens(request, cached_blocks[slots])
        compute_s = pools.prefill_fit.prefill_s(float(request.prompt_tokens), cached)
        prefill = PrefillSide(
            slots=slots,
            blocked=masks.prefill_blocked[slots],
            cached_tokens=cached,
            wait_s=view.wait_prefill_s[slots],
            compute_s=compute_s,
            price_s=price * compute_s,
            outstanding_tokens=view.outstanding_prefill_tokens[slots],
        )
        decode = self._decode_side(request, view, cached_blocks, masks)
        return Table(prefill, decode, self._network(view), request.service, self._objective_s(request), view)

    def decode_table(
        self, request: Request, view: View, cached_blocks: NDArray[np.int32], masks: Masks, prefill_slot: int
    ) -> Table:
        """Price where to decode, now that the KV is on `prefill_slot`: its prefill is done and costs nothing more."""
        pools = self.pools
        row = np.flatnonzero(pools.prefill_slots == prefill_slot)
        zero = np.zeros(1)
        prefill = PrefillSide(
            slots=pools.prefill_slots[row],
            blocked=np.zeros(1, dtype=bool),
            cached_tokens=reusable_tokens(request, cached_blocks[[prefill_slot]]),
            wait_s=zero,
            compute_s=zero,
            price_s=zero,
            outstanding_tokens=view.outstanding_prefill_tokens[[prefill_slot]],
        )
        nowhere = Masks(masks.prefill_blocked, masks.decode_blocked, np.ones_like(masks.local_blocked))
        decode = self._decode_side(request, view, cached_blocks, nowhere)
        network = self._network(view)
        paths = network.paths
        network = NetworkSide(
            paths=PathTable(
                paths.sources[row],
                paths.targets,
                paths.links[:, row],
                paths.latency_s[row],
                paths.level[row],
                paths.distinct[row],
                paths.common_from[:, row],
                paths.common_to,
            ),
            link_s_per_byte=network.link_s_per_byte,
            factor_by_level=network.factor_by_level,
        )
        return Table(prefill, decode, network, request.service, self._objective_s(request), view)

    def _decode_side(self, request: Request, view: View, cached_blocks: NDArray[np.int32], masks: Masks) -> DecodeSide:
        pools = self.pools
        fit = pools.decode_fit
        slots = pools.decode_slots
        service = request.service
        held = reusable_tokens(request, cached_blocks[slots])
        sequences = view.decode_sequences[slots]
        own_context = request.prompt_tokens + request.expected_output_tokens / 2
        tpot_s = fit.step_s(sequences + 1, view.decode_context_tokens[slots] + own_context)
        late_s = np.maximum(tpot_s - service.tpot_objective_s, 0.0)
        steps = service.tpot_weight * request.expected_output_tokens
        drag_s = fit.step_s_per_sequence + fit.step_s_per_context_token * own_context
        compute_s = fit.prefill_s(float(request.prompt_tokens), held)
        return DecodeSide(
            slots=slots,
            blocked=masks.decode_blocked[slots],
            held_tokens=held,
            moved_bytes=(request.prompt_tokens - held) * view.fleet.kv_bytes_per_token[slots],
            ready_s=self._ready_s(request, view, slots, tpot_s),
            step_s=tpot_s,
            tpot_s=tpot_s,
            tpot_cost_s=steps * (tpot_s + service.miss_factor * late_s),
            price_s=steps * sequences * drag_s,
            outstanding_tokens=view.outstanding_decode_tokens[slots],
            local_blocked=masks.local_blocked[slots],
            local_cached_tokens=held,
            local_wait_s=view.wait_prefill_s[slots],
            local_compute_s=compute_s,
            local_price_s=(self.price.seconds_per_second * view.fleet.prefills[slots] + sequences) * compute_s,
        )

    def _ready_s(self, request: Request, view: View, slots: NDArray[np.intp], tpot_s: Floats) -> Floats:
        """Seconds until HBM for the request is free: none where it fits now; else the share of what is in use that
        must end first, times how long such a request lives."""
        need = np.ceil((request.prompt_tokens + request.expected_output_tokens) / view.fleet.block_tokens[slots])
        lacking = np.maximum(need - view.free_blocks[slots], 0.0)
        share = lacking / np.maximum(view.blocks_in_use[slots], 1.0)
        return share * request.expected_output_tokens * tpot_s

    def _network(self, view: View) -> NetworkSide:
        pools = self.pools
        crowding = view.link_flows * pools.capacity_s_per_byte
        return NetworkSide(
            paths=pools.paths,
            link_s_per_byte=np.stack((pools.capacity_s_per_byte + crowding, crowding)),
            factor_by_level=self.speeds.factors(view.now_s),
        )

    def _objective_s(self, request: Request) -> float:
        """The larger of the class's floor and its factor times the best unloaded TTFT of this prompt."""
        service = request.service
        unloaded_s = min((fit.prefill_s(request.prompt_tokens, 0) for fit in self.pools.distinct_fits), default=0.0)
        return max(service.ttft_floor_s, service.ttft_factor * unloaded_s)


def reusable_tokens(request: Request, cached_blocks: NDArray[np.int32]) -> Floats:
    """Prompt tokens that whole cached blocks save. An engine computes at least the last token itself, and reuses
    whole blocks only, so a prompt that is cached to its end loses its last block."""
    whole_blocks = request.reusable_tokens_max // request.block_tokens
    return np.minimum(cached_blocks, whole_blocks) * np.float64(request.block_tokens)


def blocks_needed(request: Request, block_tokens: int) -> int:
    """HBM blocks that a request fills by the time it ends, if it ends as expected."""
    return -(-(request.prompt_tokens + request.expected_output_tokens) // block_tokens)
