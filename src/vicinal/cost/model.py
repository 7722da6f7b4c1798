"""Fills the decision table: facts of the fleet, the view of the moment and the request go in, seconds come out.

What is read, by the mission's list (B3): queue and batch through the waits and the step time; HBM through `ready`; the
network through paths and flows; KV location through cached and held tokens; model, role, health and headroom through
the masks (scheduler/filters.py); lengths and service class through the request.

What a plan costs others is in their seconds, so the requesting class's weights do not scale it: a batch request in the
way of interactive ones delays them as much as any other. Prefill on an endpoint that decodes stalls its batch for as
long as it computes; that is part of the price on every endpoint, and nothing where nobody decodes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.cluster.view import View
from vicinal.cost.lag import LegLag
from vicinal.cost.pathspeed import PathSpeeds
from vicinal.cost.price import PrefillPrice
from vicinal.cost.sides import DecodeSide, Floats, NetworkSide, Positions, PrefillSide
from vicinal.cost.table import Table
from vicinal.domain.request import Request
from vicinal.enginemodel.fit import Fit, stack
from vicinal.topology.graph import Topology
from vicinal.topology.pathtable import PathTable, path_table

Mask = NDArray[np.bool_]

USUAL_PROMPT_TOKENS = 2048
"""A prompt of a stranger, before any of our own was seen."""


class Masks(Struct, frozen=True):
    """Per slot: who may not take part as prefill, as decode, and as both at once."""

    prefill_blocked: Mask
    decode_blocked: Mask
    local_blocked: Mask


@dataclass(frozen=True, slots=True)
class _Pools:
    """What follows from the fleet alone: who is in which pool (nobody who left), the paths between the pools, and the
    fits, of all slots (`fit`) and of the decode pool. The figures from `block_tokens` on are the decode pool's too."""

    prefill_slots: NDArray[np.intp]
    decode_slots: NDArray[np.intp]
    fit: Fit
    decode_fit: Fit
    paths: PathTable
    least_latency_s: Floats
    same: Positions
    capacity_s_per_byte: Floats
    block_tokens: Floats
    kv_bytes_per_token: Floats
    also_prefills: Floats
    distinct_fits: tuple[Fit, ...]


class CostModel:
    """`profile` gives the fit of a named profile; it is asked when the fleet changes."""

    def __init__(self, profile: Callable[[str], Fit]) -> None:
        self._profile = profile
        self._pools: _Pools | None = None
        self.price = PrefillPrice()
        self.speeds = PathSpeeds()
        self.lag = LegLag()

    def rebuild(self, fleet: Fleet, topology: Topology) -> None:
        """The fleet changed: look up fits and paths anew."""
        prefill_slots = np.flatnonzero(fleet.prefills & fleet.active)
        decode_slots = np.flatnonzero(fleet.decodes & fleet.active)
        paths = path_table(topology, prefill_slots.tolist(), decode_slots.tolist())
        self._pools = _Pools(
            prefill_slots=prefill_slots,
            decode_slots=decode_slots,
            fit=self._stack(fleet, np.arange(len(fleet))),
            decode_fit=self._stack(fleet, decode_slots),
            paths=paths,
            least_latency_s=paths.latency_s.min(axis=0, initial=np.inf),
            same=_positions(~paths.distinct),
            capacity_s_per_byte=np.append(1.0 / topology.bytes_per_s, 0.0),
            block_tokens=fleet.block_tokens[decode_slots],
            kv_bytes_per_token=fleet.kv_bytes_per_token[decode_slots],
            also_prefills=fleet.prefills[decode_slots].astype(np.float64),
            distinct_fits=tuple({self._profile(fleet.endpoints[slot].profile) for slot in prefill_slots}),
        )

    def _stack(self, fleet: Fleet, slots: NDArray[np.intp]) -> Fit:
        return stack([self._profile(fleet.endpoints[slot].profile) for slot in slots])

    @property
    def pools(self) -> _Pools:
        if self._pools is None:
            raise RuntimeError("CostModel.rebuild has not been called: no fleet is known")
        return self._pools

    def usual_prefill_s(self) -> float:
        """Seconds that a stranger's prefill takes, before any of our own was seen; the slowest profile's."""
        return max((fit.prefill_s(USUAL_PROMPT_TOKENS, 0) for fit in self.pools.distinct_fits), default=0.0)

    def posted_price(self, view: View) -> float:
        """Seconds that one second of prefill costs the others, as of this view."""
        return self.price.posted(self._pool_wait_s(view), view.now_s)

    def sent_off(self, view: View, service_s: float, now: float) -> None:
        """A prefill of `service_s` is sent off, chosen from this view."""
        self.price.observe(self._pool_wait_s(view), service_s, now)

    def _pool_wait_s(self, view: View) -> float:
        """The mean wait over the endpoints that answer: a silent one has no queue that anybody could join."""
        slots = self.pools.prefill_slots
        return _mean(view.wait_prefill_s.take(slots)[view.usable.take(slots)])

    def table(self, request: Request, view: View, cached_blocks: NDArray[np.int32], masks: Masks) -> Table:
        """Price all plans for a request that arrives now. `cached_blocks` is per slot, contiguous from the root."""
        pools = self.pools
        slots = pools.prefill_slots
        price = self.posted_price(view)
        cached = reusable_tokens(request, cached_blocks)
        compute_s = pools.fit.prefill_s(float(request.prompt_tokens), cached)
        of_prefill_s = compute_s.take(slots)
        prefill = PrefillSide(
            slots=slots,
            blocked=masks.prefill_blocked.take(slots),
            cached_tokens=cached.take(slots),
            wait_s=view.wait_prefill_s.take(slots),
            compute_s=of_prefill_s,
            price_s=(price + view.decode_sequences.take(slots)) * of_prefill_s,
            outstanding_tokens=view.outstanding_prefill_tokens.take(slots),
        )
        decode = self._decode_side(request, view, cached, compute_s, masks, price)
        return Table(prefill, decode, self._network(view), request.service, self._objective_s(request), view, price)

    def decode_table(
        self, request: Request, view: View, cached_blocks: NDArray[np.int32], masks: Masks, prefill_slot: int
    ) -> Table:
        """Price where to decode, now that the KV is on `prefill_slot`: its prefill is done and costs nothing more."""
        pools = self.pools
        price = self.posted_price(view)
        row = np.flatnonzero(pools.prefill_slots == prefill_slot)
        zero = np.zeros(1)
        cached = reusable_tokens(request, cached_blocks)
        compute_s = pools.fit.prefill_s(float(request.prompt_tokens), cached)
        prefill = PrefillSide(
            slots=pools.prefill_slots[row],
            blocked=np.zeros(1, dtype=bool),
            cached_tokens=cached[[prefill_slot]],
            wait_s=zero,
            compute_s=zero,
            price_s=zero,
            outstanding_tokens=view.outstanding_prefill_tokens[[prefill_slot]],
        )
        nowhere = Masks(masks.prefill_blocked, masks.decode_blocked, np.ones_like(masks.local_blocked))
        decode = self._decode_side(request, view, cached, compute_s, nowhere, price)
        network = self._network(view)
        paths = network.paths
        network = replace(
            network,
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
            same=_positions(~paths.distinct[row]),
        )
        return Table(prefill, decode, network, request.service, self._objective_s(request), view, price)

    def _decode_side(
        self, request: Request, view: View, reusable: Floats, prefill_s: Floats, masks: Masks, price: float
    ) -> DecodeSide:
        """`reusable` tokens of the prompt and `prefill_s` to compute the rest are per slot."""
        pools = self.pools
        fit = pools.decode_fit
        slots = pools.decode_slots
        service = request.service
        held = reusable.take(slots)
        sequences = view.decode_sequences.take(slots)
        own_context = request.prompt_tokens + request.expected_output_tokens / 2
        context = view.decode_context_tokens.take(slots)
        drag_s = fit.step_s_per_sequence + fit.step_s_per_context_token * own_context
        under_way_s = fit.step_s(sequences, context)
        tpot_s = under_way_s + drag_s
        late_s = np.maximum(tpot_s - service.tpot_objective_s, 0.0)
        steps = service.tpot_weight * request.expected_output_tokens
        compute_s = prefill_s.take(slots)
        return DecodeSide(
            slots=slots,
            blocked=masks.decode_blocked.take(slots),
            held_tokens=held,
            moved_bytes=(request.prompt_tokens - held) * pools.kv_bytes_per_token,
            ready_s=self._ready_s(request, view, tpot_s),
            step_s=tpot_s + np.where(sequences > 0, under_way_s / 2, 0.0),
            tpot_s=tpot_s,
            tpot_cost_s=steps * (tpot_s + service.miss_factor * late_s),
            price_s=(request.expected_output_tokens * sequences) * drag_s,
            outstanding_tokens=view.outstanding_decode_tokens.take(slots),
            local_blocked=masks.local_blocked.take(slots),
            local_cached_tokens=held,
            local_wait_s=view.wait_prefill_s.take(slots),
            local_compute_s=compute_s,
            local_price_s=(price * pools.also_prefills + sequences) * compute_s,
        )

    def _ready_s(self, request: Request, view: View, tpot_s: Floats) -> Floats:
        """Seconds until HBM for the request is free: none where it fits now; else the share of what is in use that
        must end first, times how long such a request lives."""
        slots = self.pools.decode_slots
        need = np.ceil((request.prompt_tokens + request.expected_output_tokens) / self.pools.block_tokens)
        lacking = np.maximum(need - view.free_blocks.take(slots), 0.0)
        if not np.count_nonzero(lacking):
            return lacking
        in_use = view.blocks_in_use.take(slots)
        share = np.minimum(lacking, in_use) / np.maximum(in_use, 1.0)
        return share * request.expected_output_tokens * tpot_s

    def _network(self, view: View) -> NetworkSide:
        pools = self.pools
        link_s_per_byte = np.empty((2, len(pools.capacity_s_per_byte)))
        np.multiply(view.link_flows, pools.capacity_s_per_byte, out=link_s_per_byte[1])
        np.add(pools.capacity_s_per_byte, link_s_per_byte[1], out=link_s_per_byte[0])
        return NetworkSide(
            paths=pools.paths,
            link_s_per_byte=link_s_per_byte,
            factor_by_level=self.speeds.factors(view.now_s),
            least_latency_s=pools.least_latency_s,
            same=pools.same,
        )

    def _objective_s(self, request: Request) -> float:
        """The larger of the class's floor and its factor times the best unloaded TTFT of this prompt."""
        service = request.service
        unloaded_s = min((fit.prefill_s(request.prompt_tokens, 0) for fit in self.pools.distinct_fits), default=0.0)
        return max(service.ttft_floor_s, service.ttft_factor * unloaded_s)


def _mean(values: Floats) -> float:
    """Without the overhead of `ndarray.mean`, which is most of its time on a small fleet."""
    return float(np.add.reduce(values)) / len(values) if len(values) else 0.0


def _positions(mask: Mask) -> Positions:
    rows, columns = mask.nonzero()
    return rows, columns


def reusable_tokens(request: Request, cached_blocks: NDArray[np.int32]) -> Floats:
    """Prompt tokens that whole cached blocks save. An engine computes at least the last token itself, and reuses
    whole blocks only, so a prompt that is cached to its end loses its last block."""
    whole_blocks = request.reusable_tokens_max // request.block_tokens
    return np.minimum(cached_blocks, whole_blocks) * np.float64(request.block_tokens)


def blocks_needed(request: Request, block_tokens: int) -> int:
    """HBM blocks that a request fills by the time it ends, if it ends as expected."""
    return -(-(request.prompt_tokens + request.expected_output_tokens) // block_tokens)
