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
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.report import EndpointReport
from vicinal.kvindex.engine_blocks import EngineBlocks
from vicinal.kvindex.index import BlockIndex
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
    `events_s` is per slot when its last KV event came, -inf for never.
    """

    def __init__(
        self,
        block_tokens: int,
        build_topology: Callable[[Sequence[Endpoint]], Topology],
        freshness: FreshnessRule,
    ) -> None:
        self.fleet = Fleet()
        self.ledger = Ledger()
        self.reports = Reports()
        self.freshness = freshness
        self.index = BlockIndex(block_tokens)
        self.engine_blocks = EngineBlocks(self.index)
        self.topology = build_topology([])
        self.events_s = np.zeros(0)
        self.mean_prefill_s = 0.0
        self.mean_context_tokens = 0.0
        self._build_topology = build_topology
        self._heard: _Heard | None = None

    def change_fleet(self, endpoints: Sequence[Endpoint]) -> list[int]:
        """Make the fleet exactly `endpoints`; what was known of those that left is dropped. Returns their slots."""
        left, _ = self.fleet.change(endpoints)
        for slot in left:
            self.engine_blocks.forget(slot)
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

    def apply_blocks(self, event: BlocksStored | BlocksRemoved | BlocksCleared, now: float) -> None:
        slot = self.slot(event.endpoint)
        if slot is not None:
            self.engine_blocks.apply(slot, event)
            self.events_s[slot] = now

    def sends_events(self, slot: int) -> bool:
        """The endpoint tells what it holds: it should, or it has. Otherwise that is inferred from what went there."""
        return bool(self.fleet.endpoints[slot].events_url) or bool(self.events_s[slot] > -np.inf)

    def lose(self, endpoint: EndpointId, now: float) -> bool:
        """True when it is news that the endpoint does not answer."""
        slot = self.slot(endpoint)
        return slot is not None and self.reports.lose(slot, now)

    def view(self, now: float) -> View:
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
        wait_s = ledger.wait_s(now)
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
