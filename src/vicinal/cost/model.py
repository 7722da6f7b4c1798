"""Fills the decision table: facts of the fleet, the view of the moment and the request go in, seconds come out.

What is read, by the mission's list (B3): queue and batch through the waits and the step time; HBM through `ready`; the
network through paths and flows; KV location through cached and held tokens; model, role, health and headroom through
the masks (scheduler/filters.py); lengths and service class through the request.

What a plan costs others is in their seconds, so the requesting class's weights do not scale it: a batch request in the
way of interactive ones delays them as much as any other. Prefill on an endpoint that decodes stalls its batch for as
long as it computes; that is part of the price on every endpoint, and nothing where nobody decodes.
"""

from collections.abc import Callable, Collection, Sequence
from math import ceil

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.cluster.view import View
from vicinal.cost.below import below, reusable_tokens
from vicinal.cost.lag import LegLag
from vicinal.cost.pathspeed import PathSpeeds
from vicinal.cost.pools import Ends, Pools, by_role, pools, positions, whoever_makes_copies, without
from vicinal.cost.price import PrefillPrice
from vicinal.cost.sides import Below, DecodeSide, Floats, NetworkSide, PrefillSide
from vicinal.cost.table import Table
from vicinal.domain.ids import ModelId
from vicinal.domain.request import Request
from vicinal.enginemodel.fit import Fit
from vicinal.topology.graph import Topology
from vicinal.topology.pathtable import PathTable

Mask = NDArray[np.bool_]

USUAL_PROMPT_TOKENS = 2048
"""A prompt of a stranger, before any of our own was seen."""


class Masks(Struct, frozen=True):
    """Per slot: who may not take part as prefill, as decode, and as both at once."""

    prefill_blocked: Mask
    decode_blocked: Mask
    local_blocked: Mask


class CostModel:
    """`profile` gives the fit of a named profile; it is asked when the fleet changes. `ends` says who may prefill in a
    pair, and who may decode. `held_s` is prefill work that waits in front of the fleet, in seconds for each endpoint
    that prefills: it is in the same queue as what waits on them, as far as prices are concerned."""

    def __init__(self, profile: Callable[[str], Fit], ends: Ends = by_role) -> None:
        self._profile = profile
        self._ends = ends
        self._all_pairs: Pools | None = None
        self._pools: Pools | None = None
        self._copies: CostModel | None = None
        self._rebuilt: tuple[Fleet, Topology] | None = None
        self.price = PrefillPrice()
        self.speeds = PathSpeeds()
        self.lag = LegLag()
        self.held_s = 0.0

    def rebuild(self, fleet: Fleet, topology: Topology) -> None:
        """The fleet changed: look up fits and paths anew."""
        self._pools = self._all_pairs = pools(fleet, topology, self._profile, self._ends)
        self._rebuilt = fleet, topology
        self._copies = None

    @property
    def copies(self) -> "CostModel":
        """The same prices and speeds for copies of prefixes, whose ends may be all that hand off. It is made when the
        first copy asks: it has a path for every pair of endpoints."""
        if self._copies is None:
            if self._rebuilt is None:
                raise RuntimeError("CostModel.rebuild has not been called: no fleet is known")
            made = CostModel(self._profile, whoever_makes_copies)
            made.price, made.speeds, made.lag = self.price, self.speeds, self.lag
            made.rebuild(*self._rebuilt)
            self._copies = made
        return self._copies

    def avoid(self, pairs: Collection[tuple[int, int]]) -> None:
        """Exactly these pairs of slots (prefill, decode) are left out of tables until `avoid` or `rebuild` is called
        again, unless no pair would be left."""
        assert self._all_pairs is not None
        self._pools = without(self._all_pairs, pairs) if pairs else self._all_pairs

    @property
    def pools(self) -> Pools:
        if self._pools is None:
            raise RuntimeError("CostModel.rebuild has not been called: no fleet is known")
        return self._pools

    def queueing(self, view: View, model: ModelId) -> NDArray[np.intp]:
        """The slots that prefill this model by their role and answer."""
        slots = self.pools.queueing_slots
        return slots[(view.usable & view.fleet.of_model(model)).take(slots)]

    def decoding(self, view: View, model: ModelId) -> NDArray[np.intp]:
        """Likewise those that decode it."""
        slots = self.pools.decode_slots
        return slots[(view.usable & view.fleet.of_model(model)).take(slots)]

    def usual_prefill_s(self) -> float:
        """Seconds that a stranger's prefill takes, before any of our own was seen; the slowest profile's."""
        return max((fit.prefill_s(USUAL_PROMPT_TOKENS, 0) for fit in self.pools.distinct_fits), default=0.0)

    def posted_price(self, view: View) -> float:
        """Seconds that one second of prefill costs the others, as of this view."""
        return self.price.posted(self._pool_wait_s(view), view.now_s)

    def sent_off(self, pool_wait_s: float, service_s: float, now: float) -> None:
        """A prefill of `service_s` is sent off, chosen from a table with this `pool_wait_s`."""
        self.price.observe(pool_wait_s, service_s, now)

    def _pool_wait_s(self, view: View) -> float:
        """What is held, and the mean wait over the endpoints that prefill by role and answer: a silent one has no queue
        that anybody could join."""
        slots = self.pools.queueing_slots
        waits_s = view.wait_prefill_s.take(slots)
        return self.held_s + _mean(waits_s if view.all_usable else waits_s[view.usable.take(slots)])

    def table(
        self,
        request: Request,
        view: View,
        cached_blocks: NDArray[np.int32],
        masks: Masks,
        reached: Sequence[NDArray[np.int32]] = (),
    ) -> Table:
        """Price all plans for a request that arrives now. `cached_blocks` is per slot, contiguous from the root, in
        HBM; `reached` likewise with the tiers down to host memory, and to SSD; empty where nobody has more there."""
        pools = self.pools
        slots = pools.prefill_slots
        pool_wait_s = self._pool_wait_s(view)
        price = self.price.posted(pool_wait_s, view.now_s)
        held = cached = reusable_tokens(request, cached_blocks)
        lower = below(request, held, reached, pools.load_rates) if reached else None
        if lower is not None:
            cached = held + lower.host_tokens + lower.ssd_tokens
        compute_s = pools.fit.prefill_s(float(request.prompt_tokens), cached)
        decode = self._decode_side(request, view, held, cached, compute_s, lower, masks, price)
        prefill, network = pools.no_prefill, pools.no_network
        if len(slots):
            of_prefill_s = compute_s.take(slots)
            prefill = PrefillSide(
                slots=slots,
                blocked=masks.prefill_blocked.take(slots),
                cached_tokens=cached.take(slots),
                wait_s=view.wait_prefill_s.take(slots),
                compute_s=of_prefill_s,
                price_s=(price + view.decode_sequences.take(slots)) * of_prefill_s,
                outstanding_tokens=view.outstanding_prefill_tokens.take(slots),
                below=None if lower is None else lower.take(slots),
                pressure_s=None if view.pressure_s is None else view.pressure_s.take(slots),
            )
            network = self._network(view)
        return Table(prefill, decode, network, request.service, self.objective_s(request), view, price, pool_wait_s)

    def decode_table(
        self, request: Request, view: View, cached_blocks: NDArray[np.int32], masks: Masks, prefill_slot: int
    ) -> Table:
        """Price where to decode, now that the KV is on `prefill_slot`: its prefill is done and costs nothing more."""
        pools = self.pools
        pool_wait_s = self._pool_wait_s(view)
        price = self.price.posted(pool_wait_s, view.now_s)
        row = np.flatnonzero(pools.prefill_slots == prefill_slot)
        zero = np.zeros(1)
        held = reusable_tokens(request, cached_blocks)
        compute_s = pools.fit.prefill_s(float(request.prompt_tokens), held)
        prefill = PrefillSide(
            slots=pools.prefill_slots[row],
            blocked=np.zeros(1, dtype=bool),
            cached_tokens=held[[prefill_slot]],
            wait_s=zero,
            compute_s=zero,
            price_s=zero,
            outstanding_tokens=view.outstanding_prefill_tokens[[prefill_slot]],
        )
        nowhere = Masks(masks.prefill_blocked, masks.decode_blocked, np.ones_like(masks.local_blocked))
        decode = self._decode_side(request, view, held, held, compute_s, None, nowhere, price)
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
            same=positions(~paths.distinct[row]),
        )
        return Table(prefill, decode, network, request.service, self.objective_s(request), view, price, pool_wait_s)

    def _decode_side(
        self,
        request: Request,
        view: View,
        in_hbm: Floats,
        cached: Floats,
        prefill_s: Floats,
        lower: Below | None,
        masks: Masks,
        price: float,
    ) -> DecodeSide:
        """Reusable tokens of the prompt `in_hbm` and in all tiers, and `prefill_s` to compute the rest are per slot."""
        pools = self.pools
        fit, of_decode = pools.decode_fit, pools.of_decode
        service = request.service
        held = of_decode(in_hbm)
        sequences = of_decode(view.decode_sequences)
        own_context = request.prompt_tokens + request.expected_output_tokens / 2
        drag_s = fit.step_s_per_sequence + fit.step_s_per_context_token * own_context
        under_way_s = fit.step_s(sequences, of_decode(view.decode_context_tokens))
        tpot_s = under_way_s + drag_s
        late_s = np.maximum(tpot_s - service.tpot_objective_s, 0.0)
        steps = service.tpot_weight * request.expected_output_tokens
        compute_s = of_decode(prefill_s)
        return DecodeSide(
            slots=pools.decode_slots,
            blocked=of_decode(masks.decode_blocked),
            held_tokens=held,
            moved_bytes=(request.prompt_tokens - held) * pools.kv_bytes_per_token,
            ready_s=self._ready_s(request, view, tpot_s),
            step_s=tpot_s + np.where(sequences > 0, under_way_s / 2, 0.0),
            tpot_s=tpot_s,
            tpot_cost_s=steps * (tpot_s + service.miss_factor * late_s),
            price_s=(request.expected_output_tokens * sequences) * drag_s,
            outstanding_tokens=of_decode(view.outstanding_decode_tokens),
            local_blocked=of_decode(masks.local_blocked),
            local_cached_tokens=held if lower is None else of_decode(cached),
            local_wait_s=of_decode(view.wait_prefill_s),
            local_compute_s=compute_s,
            local_price_s=(price * pools.also_prefills + sequences) * compute_s,
            local_below=None if lower is None else lower.take(pools.decode_slots),
            pressure_s=None if view.pressure_s is None else of_decode(view.pressure_s),
        )

    def _ready_s(self, request: Request, view: View, tpot_s: Floats) -> Floats:
        """Seconds until HBM for the request is free: none where it fits now; else the share of what is in use that
        must end first, times how long such a request lives."""
        pools = self.pools
        tokens = request.prompt_tokens + request.expected_output_tokens
        free_blocks = pools.of_decode(view.free_blocks)
        if ceil(tokens / view.fleet.block_tokens_min) <= np.minimum.reduce(free_blocks, initial=np.inf):
            return pools.never
        lacking = np.maximum(np.ceil(tokens / pools.block_tokens) - free_blocks, 0.0)
        in_use = pools.of_decode(view.blocks_in_use)
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
            nominal_s_per_byte_by_level=pools.nominal_s_per_byte_by_level,
            least_latency_s=pools.least_latency_s,
            same=pools.same,
            same_max=pools.same_max,
        )

    def objective_s(self, request: Request) -> float:
        """The larger of the class's floor and its factor times the best unloaded TTFT of this prompt."""
        return request.service.ttft_objective_s(self.least_prefill_s(request, 0))

    def least_prefill_s(self, request: Request, cached_tokens: int) -> float:
        """Compute of the prompt on the fastest kind of endpoint, when it holds so much of it."""
        fits = self.pools.distinct_fits
        return min((fit.prefill_s(request.prompt_tokens, cached_tokens) for fit in fits), default=0.0)


def _mean(values: Floats) -> float:
    """Without the overhead of `ndarray.mean`, which is most of its time on a small fleet."""
    return float(np.add.reduce(values)) / len(values) if len(values) else 0.0


def blocks_needed(request: Request, block_tokens: int) -> int:
    """HBM blocks that a request fills by the time it ends, if it ends as expected."""
    return -(-(request.prompt_tokens + request.expected_output_tokens) // block_tokens)
