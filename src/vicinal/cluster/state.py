"""The one owner of belief about the fleet: fleet, ledger, reports and index change here and nowhere else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.cluster.freshness import Freshness, FreshnessRule
from vicinal.cluster.ledger import Ledger, Transfer
from vicinal.cluster.reports import Reports
from vicinal.cluster.view import View
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import Request
from vicinal.domain.tier import Tier
from vicinal.kvindex.engine_blocks import EngineBlocks
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.inferred import TTL_S, InferredBlocks
from vicinal.kvindex.limit import BLOCKS_MAX, Limit
from vicinal.topology.graph import Topology


@dataclass(frozen=True, slots=True)
class _Heard:
    """What follows from the fleet and from what reports told, per slot, while neither changes (`Reports.changes`): who
    answers, the load of others by phase. While all reports are fresh, everybody is known, and `fresh_blocks` is the HBM
    that is left beside the safety margin.
    """

    changes: int
    answering: NDArray[np.bool_]
    everybody: NDArray[np.bool_]
    fresh_blocks: NDArray[np.float64]
    no_strangers: bool
    prefills: NDArray[np.float64]
    decodes: NDArray[np.float64]


class ClusterState:
    """Applies facts, gives out views.

    `build_topology` makes the network of a fleet given in slot order; it is called when the fleet changes.
    `mean_context_tokens` stands for the context of a stranger's sequence, `mean_prefill_s` for its prefill.
    `pressure_s` is what endpoints under pressure cost more, None while none is.
    `events_s` is per slot when its last KV event that could be used came, -inf for never. `wrong_sizes` has, by slot,
    the block size of engines whose events cannot be used because the index has another.
    """

    def __init__(
        self,
        block_tokens: int,
        build_topology: Callable[[Sequence[Endpoint]], Topology],
        freshness: FreshnessRule,
        inferred_ttl_s: float = TTL_S,
        index_blocks_max: int = BLOCKS_MAX,
    ) -> None:
        self.fleet = Fleet()
        self.ledger = Ledger()
        self.reports = Reports()
        self.freshness = freshness
        self.index = BlockIndex(block_tokens)
        self.engine_blocks = EngineBlocks(self.index)
        self.inferred = InferredBlocks(self.index, inferred_ttl_s)
        self.index_limit = Limit(self.engine_blocks, self.inferred, index_blocks_max)
        self.topology = build_topology([])
        self.events_s = np.zeros(0)
        self.wrong_sizes: dict[int, int] = {}
        self.pressure_s: NDArray[np.float64] | None = None
        self.mean_prefill_s = 0.0
        self.mean_context_tokens = 0.0
        self._build_topology = build_topology
        self._heard: _Heard | None = None

    def change_fleet(self, endpoints: Sequence[Endpoint]) -> list[int]:
        """Make the fleet exactly `endpoints`; what was known of those that left is dropped. Returns their slots."""
        left, _ = self.fleet.change(endpoints)
        for slot in left:
            self.inferred.forget(slot)
            self.engine_blocks.forget(slot)
            self.wrong_sizes.pop(slot, None)
        slots = len(self.fleet)
        self.topology = self._build_topology(self.fleet.endpoints)
        self.reports.resize(slots)
        self.events_s = np.append(self.events_s, np.full(slots - len(self.events_s), -np.inf))
        for slot in left:
            self.reports.forget(slot)
            self.events_s[slot] = -np.inf
        self.ledger.resize(slots, len(self.topology.links))
        for owner, transfer in list(self.ledger.transfers.items()):
            self.start_transfer(owner, transfer.source, transfer.target, transfer.kv_bytes)
        return left

    def start_transfer(self, owner: RequestId, source: int, target: int, kv_bytes: float) -> None:
        path = self.topology.path(source, target)
        self.ledger.start_transfer(owner, Transfer(source, target, path.links, kv_bytes, path.level))

    def assume_strangers(self, prefill_s: float, context_tokens: float) -> None:
        """What a stranger's request is like, until our own requests tell."""
        self.mean_prefill_s = self.mean_prefill_s or prefill_s
        self.mean_context_tokens = self.mean_context_tokens or context_tokens

    def slot(self, endpoint: EndpointId) -> int | None:
        return self.fleet.slots.get(endpoint)

    def apply_report(self, report: EndpointReport) -> None:
        slot = self.slot(report.endpoint)
        if slot is None:
            return
        ledger = self.ledger
        self.reports.take(
            slot,
            report,
            own_requests=float(ledger.prefill_count[slot] + ledger.decode_count[slot]),
            own_blocks=float(ledger.blocks_reserved[slot]),
            kv_blocks=float(self.fleet.kv_blocks[slot]),
        )

    def apply_blocks(self, event: BlocksStored | BlocksRemoved | BlocksCleared, now: float) -> Sequence[Warn]:
        """What an engine says of its blocks. Warns, once per engine and size, of blocks that the index cannot hold."""
        slot = self.slot(event.endpoint)
        if slot is None:
            return ()
        if isinstance(event, BlocksStored) and event.block_tokens != self.index.block_tokens:
            self.engine_blocks.apply(slot, event)
            return self._refuse_size(slot, event)
        if (
            isinstance(event, BlocksCleared)
            or self.engine_blocks.begins_anew(slot, event)
            or not self.sends_events(slot)
        ):
            self.inferred.forget(slot)
        self.engine_blocks.apply(slot, event)
        if isinstance(event, BlocksStored):
            self.wrong_sizes.pop(slot, None)
            self.index_limit.keep()
        self.events_s[slot] = now
        return ()

    def _refuse_size(self, slot: int, event: BlocksStored) -> Sequence[Warn]:
        size = event.block_tokens
        if size == 0 or event.tier is not Tier.HBM or self.wrong_sizes.get(slot) == size:
            return ()
        self.wrong_sizes[slot] = size
        text = (
            f"{event.endpoint} keeps KV in blocks of {size} tokens, and everything here is in blocks of "
            f"{self.index.block_tokens}: its KV events cannot be used, and what it holds is inferred from what is sent "
            f"there; give it the block size of the others, or set model.block_tokens = {size} if all have that"
        )
        return (Warn("block_size", event.endpoint, text),)

    def sends_events(self, slot: int) -> bool:
        """The endpoint tells what it holds, in usable blocks: it should, or it has. Otherwise that is inferred."""
        tells = bool(self.fleet.endpoints[slot].events_url) or bool(self.events_s[slot] > -np.inf)
        return tells and slot not in self.wrong_sizes

    def infers(self, slot: int, request: Request) -> bool:
        """What the endpoint holds of this request's prompt can only be inferred."""
        return request.inferred_only or not self.sends_events(slot)

    def computed(self, slot: int, request: Request, now: float) -> None:
        """The endpoint has the request's prompt now, computed or handed over. Where it tells so itself, it is believed
        when it does."""
        if self.infers(slot, request):
            self.inferred.learn(slot, request.block_hashes, int(self.fleet.kv_blocks[slot]), now)
            self.index_limit.keep()

    def lose(self, endpoint: EndpointId, now: float) -> bool:
        """True when it is news that the endpoint does not answer. It may restart, so nothing is inferred of it."""
        slot = self.slot(endpoint)
        if slot is None:
            return False
        self.inferred.forget(slot)
        return self.reports.lose(slot, now)

    def view(self, now: float) -> View:
        self.inferred.expire(now)
        fleet, ledger, said = self.fleet, self.ledger, self.reports
        heard = self._heard
        if heard is None or heard.changes != said.changes:
            heard = self._heard = _heard(fleet, said, self.freshness)
        in_use = ledger.blocks_reserved + said.foreign_blocks
        oldest_s = float(np.minimum.reduce(said.reported_s, initial=np.inf))
        if self.freshness.of(now - oldest_s) is Freshness.FRESH:
            known, usable, blocks = heard.everybody, heard.answering, heard.fresh_blocks
        else:
            ages_s = self.reports.ages_s(now)
            known = self.freshness.known(ages_s)
            usable = heard.answering & known
            blocks = fleet.kv_blocks - fleet.kv_blocks * self.freshness.hbm_margin_share(ages_s)
        wait_s = own_wait_s = ledger.wait_s(now)
        sequences = ledger.decode_count + ledger.pencilled_count
        context_tokens = ledger.decode_context_tokens + ledger.pencilled_context_tokens
        if not heard.no_strangers:
            wait_s = wait_s + heard.prefills * self.mean_prefill_s
            sequences = sequences + heard.decodes
            context_tokens = context_tokens + heard.decodes * self.mean_context_tokens
        return View(
            now_s=now,
            fleet=fleet,
            known=known,
            usable=usable,
            wait_prefill_s=wait_s,
            own_wait_prefill_s=own_wait_s,
            outstanding_prefill_tokens=ledger.prefill_tokens,
            outstanding_decode_tokens=ledger.decode_tokens,
            prefill_count=ledger.prefill_count,
            decode_count=ledger.decode_count,
            pencilled_count=ledger.pencilled_count,
            decode_sequences=sequences,
            decode_context_tokens=context_tokens,
            free_blocks=blocks - in_use,
            blocks_in_use=in_use,
            foreign_requests=said.foreign_requests,
            reported_s=said.reported_s,
            gpu_utilization=said.gpu_utilization,
            reported_waiting=said.waiting,
            reported_running=said.running,
            reported_kv_usage=said.kv_usage,
            link_flows=ledger.link_flows,
            sending=ledger.sending,
            pressure_s=self.pressure_s,
        )


def _heard(fleet: Fleet, said: Reports, freshness: FreshnessRule) -> _Heard:
    foreign = said.foreign_requests
    return _Heard(
        changes=said.changes,
        answering=fleet.active & said.reachable,
        everybody=np.ones(len(fleet), dtype=bool),
        fresh_blocks=fleet.kv_blocks - fleet.kv_blocks * freshness.margin_share,
        no_strangers=not foreign.any(),
        prefills=np.where(fleet.prefills, foreign, 0.0),
        decodes=np.where(fleet.prefills, 0.0, foreign),
    )
